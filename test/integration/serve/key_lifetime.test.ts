import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'
const DAY_MS = 86_400_000

type Entry = Readonly<Record<'prefix' | 'state' | 'description' | 'createdAt', string>> &
  Readonly<Record<'expiresAt' | 'revokedAt' | 'replacedBy', string | null>>

async function startKeys() {
  const company = await startCompany(notices(1, 2))
  const keys = (...args: string[]) => runShared(['keys', ...args], company.environment)
  return {
    company,
    dataDir: company.environment.DATA_DIR as string,
    keys,
    entries: async (): Promise<Entry[]> => JSON.parse((await keys('list', '--json')).stdout),
    async make(...args: string[]) {
      const { code, stdout, stderr } = await keys('create', '--description', 'ERP', ...args)
      expect({ code, stderr }).toMatchObject({ code: 0 })
      return stdout.trim()
    },
  }
}

test('an expired key is refused like a revoked one, from that very moment', async () => {
  const { company, entries, keys, make } = await startKeys()
  await company.syncHere()
  const key = await make('--expires', '90d')
  const [entry] = await entries()
  expect(entry).toMatchObject({ state: 'valid', revokedAt: null, replacedBy: null })
  const expiresMs = Date.parse(entry?.expiresAt as string)
  expect(expiresMs - Date.parse(entry?.createdAt as string)).toBe(90 * DAY_MS)

  let nowMs = expiresMs - 1
  const { ask, store } = await serveApi(company.environment, { now: () => new Date(nowMs) })
  expect((await ask(PATH, { key })).status).toBe(200)
  nowMs = expiresMs
  const revoked = store.create('acme', 'revoked', new Date())
  store.revoke(revoked.slice(0, 12), new Date())
  const answers = await Promise.all([key, revoked].map(one => ask(PATH, { key: one })))
  const [expiredAnswer, revokedAnswer] = answers.map(({ status, body, headers }) => {
    const { 'x-request-id': _, date, ...others } = headers
    return { status, body: body.toString(), others }
  })
  expect(expiredAnswer).toEqual(revokedAnswer)
  expect(expiredAnswer).toMatchObject({ status: 401, body: '{"error":"unauthorized"}' })

  const past = new DatabaseSync(join(company.environment.DATA_DIR as string, 'api_keys.sqlite'))
  past
    .prepare('UPDATE api_keys SET expires_at = ? WHERE prefix = ?')
    .run('2020-01-01T00:00:00.000Z', key.slice(0, 12))
  past.close()
  expect((await entries())[0]).toMatchObject({ state: 'expired', expiresAt: '2020-01-01T00:00:00.000Z' })
  const { stdout } = await keys('list')
  expect(stdout).toMatch(/edk_.*│ 2020-01-01T00:00:00Z │ expired/)
  expect(await keys('rotate', key)).toMatchObject({ code: 2, stdout: '' })
})

test('an expiry is a duration, the end of a day in UTC, or an instant', async () => {
  const { entries, keys, make } = await startKeys()
  await make('--expires', '2999-12-31')
  await make('--expires', '2999-12-31T18:00:00-03:00')
  await make('--expires', '12h')
  expect((await entries()).map(({ expiresAt }) => expiresAt)).toEqual([
    '2999-12-31T23:59:59.999Z',
    '2999-12-31T21:00:00.000Z',
    expect.stringMatching(/Z$/),
  ])
  for (const [expires, said] of [
    ['2020-01-01', 'must be in the future, not 2020-01-01T23:59:59.999Z'],
    ['0s', 'must be in the future'],
    ['2999-02-30', 'must be a duration such as 90d, a day such as'],
    ['2999-12-31T18:00:00', 'must be a duration'],
    ['99999999999d', 'must be a duration'],
    ['soon', 'must be a duration'],
    ['', 'must be a duration'],
  ] as const) {
    const refused = await keys('create', '--description', 'x', '--expires', expires)
    expect(refused, expires).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toContain(said)
  }
  expect(await entries()).toHaveLength(3)
})

test('a rotated key is accepted beside its successor until the overlap ends', async () => {
  const { company, entries, keys, make } = await startKeys()
  await company.syncHere()
  const old = await make('--expires', '30d')
  const prefix = old.slice(0, 12)
  const rotated = await keys('rotate', old, '--overlap', '2h')
  const fresh = rotated.stdout.trim()
  expect(rotated.code).toBe(0)
  expect(fresh).toMatch(/^edk_[0-9a-f]{8}_[0-9a-f]{64}$/)
  const [was, is] = (await entries()) as [Entry, Entry]
  expect(was).toMatchObject({ prefix, state: 'replaced', replacedBy: fresh.slice(0, 12), revokedAt: null })
  expect(is).toMatchObject({
    prefix: fresh.slice(0, 12),
    state: 'valid',
    company: 'acme',
    description: 'ERP',
  })
  expect(Date.parse(was.expiresAt as string) - Date.parse(is.createdAt)).toBe(2 * 3_600_000)
  // The same lifetime again.
  expect(Date.parse(is.expiresAt as string) - Date.parse(is.createdAt)).toBe(30 * DAY_MS)
  expect(rotated.stderr).toBe(
    `New API key of acme for ERP, valid until ${is.expiresAt}. Store it now: it is not shown again. ${prefix} still works until ${was.expiresAt}.\n`,
  )
  expect((await keys('list')).stdout).toContain(`replaced by ${is.prefix} until `)

  let nowMs = Date.parse(was.expiresAt as string) - 1
  const { ask } = await serveApi(company.environment, { now: () => new Date(nowMs) })
  const statuses = async () =>
    await Promise.all([old, fresh].map(async key => (await ask(PATH, { key })).status))
  expect(await statuses()).toEqual([200, 200])
  nowMs += 1
  expect(await statuses()).toEqual([401, 200])

  const twice = await keys('rotate', prefix)
  expect(twice).toMatchObject({ code: 2, stdout: '' })
  expect(twice.stderr).toContain(`${prefix} was already replaced by ${is.prefix}.`)
})

test('a rotation without overlap ends the old key at once, and no rotation extends the old key', async () => {
  const { entries, keys, make } = await startKeys()
  const [ended, short] = [await make(), await make('--expires', '1h')]
  const rotated = JSON.parse((await keys('rotate', ended, '--overlap', '0s', '--json')).stdout)
  expect(rotated).toEqual({
    key: expect.stringMatching(/^edk_/),
    company: 'acme',
    description: 'ERP',
    expiresAt: null,
    replaces: {
      prefix: ended.slice(0, 12),
      expiresAt: expect.any(String),
      revokedAt: expect.stringMatching(/Z$/),
    },
  })
  const [before] = (await entries()).filter(({ prefix }) => prefix === short.slice(0, 12))
  expect(await keys('rotate', short, '--expires', '2999-12-31')).toMatchObject({ code: 0 })
  const states = new Map((await entries()).map(entry => [entry.prefix, entry]))
  expect(states.get(ended.slice(0, 12))).toMatchObject({ state: 'revoked' })
  // An overlap of a day would exceed its remaining hour.
  expect(states.get(short.slice(0, 12))).toMatchObject({ state: 'replaced', expiresAt: before?.expiresAt })
  expect([...states.values()].at(-1)).toMatchObject({ expiresAt: '2999-12-31T23:59:59.999Z' })
  for (const args of [
    ['edk_00000000'],
    [ended],
    [short, '--overlap', 'soon'],
    [short, '--overlap', '1e9d'],
  ]) {
    expect(await keys('rotate', ...args), String(args)).toMatchObject({ code: 2, stdout: '' })
  }
  expect(await entries()).toHaveLength(4)
})

const create = (company: string) => ['keys', 'create', '--company', company, '--description', 'ERP']

test('a key can be created for a configured company, or one that still has data', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  await companies.configure({ acme: {}, boreal: {} })
  const { environment, file } = companies
  const dataDir = environment.DATA_DIR as string
  await mkdir(join(dataDir, 'former', 'lake'), { recursive: true })
  // Neither of these is a company with data.
  await mkdir(join(dataDir, 'empty'))
  await writeFile(join(dataDir, 'stray'), '')
  for (const slug of ['acme', 'boreal', 'former']) {
    expect(await runShared(create(slug), environment), slug).toMatchObject({ code: 0 })
  }
  for (const slug of ['acmee', 'empty', 'stray', 'default']) {
    const refused = await runShared(create(slug), environment)
    expect(refused, slug).toMatchObject({ code: 2, stdout: '' })
    expect(refused.stderr).toBe(
      `--company ${slug}: no such company. Known companies: acme, boreal, former. Check the name, or first add the company to ${file}.\n`,
    )
  }
  const listed = await runShared(['keys', 'list', '--company', 'former', '--json'], environment)
  expect(JSON.parse(listed.stdout)).toMatchObject([{ company: 'former' }])
  expect(await runShared(['keys', 'list', '--company', 'acmee'], environment)).toMatchObject({ code: 2 })
})

test("without a companies' file, the company of the environment is known, and those with data", async () => {
  const { environment } = await startCompany(notices(1, 1))
  const dataDir = environment.DATA_DIR as string
  const refused = await runShared(create('beta'), environment)
  expect(refused).toMatchObject({ code: 2, stdout: '' })
  expect(refused.stderr).toContain('--company beta: no such company. Known companies: acme. Check the name')
  expect(await readdir(dataDir)).toEqual([])
  await mkdir(join(dataDir, 'beta', 'lake'), { recursive: true })
  for (const slug of ['acme', 'beta']) {
    expect(await runShared(create(slug), environment), slug).toMatchObject({ code: 0 })
  }
})
