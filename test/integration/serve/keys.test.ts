import { readdir, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { KeyStore } from '#src/server/keys.ts'
import { startCompanies } from '#test/support/companies.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'

test('a key is shown once, listed by its prefix, and refused from the moment it is revoked', async () => {
  const company = await startSynced(notices(1, 3))
  const { environment } = company
  const keys = (args: readonly string[]) => runShared(['keys', ...args], environment)

  expect(await keys(['list'])).toMatchObject({ code: 0, stdout: 'There are no keys yet.\n' })
  expect(await keys(['revoke', 'edk_1'])).toMatchObject({ code: 2 })
  expect(await keys(['list', '--company', '../acme'])).toMatchObject({ code: 2, stdout: '' })
  // Listing creates no file.
  expect((await readdir(environment.DATA_DIR as string)).filter(name => name.startsWith('api_keys'))).toEqual(
    [],
  )
  const created = await keys(['create', '--description', 'ERP of the branch'])
  const key = created.stdout.trim()
  expect(key).toMatch(/^edk_[0-9a-f]{8}_[0-9a-f]{64}$/)
  expect(created).toMatchObject({ code: 0, stdout: `${key}\n` })
  expect(created.stderr).toContain('not shown again')
  const prefix = key.slice(0, 12)
  const asJson = JSON.parse(
    (await keys(['create', '--company', 'acme', '--description', 'CRM', '--json'])).stdout,
  )
  expect(asJson).toEqual({
    key: expect.stringMatching(/^edk_/),
    company: 'acme',
    description: 'CRM',
    expiresAt: null,
    scopes: ['read', 'feed'],
    maxRps: null,
  })

  const { ask } = await serveApi(environment)
  expect((await ask(PATH, { key })).status).toBe(200)
  expect((await ask(PATH, { key: null, headers: { authorization: `Bearer ${key}` } })).status).toBe(200)

  // On the same connection, while another process revokes it.
  expect(await keys(['revoke', key])).toMatchObject({
    code: 0,
    stdout: `${prefix} (acme, ERP of the branch) is refused from now on.\n`,
  })
  expect((await ask(PATH, { key })).status).toBe(401)
  expect((await ask(PATH, { key: asJson.key })).status).toBe(200)

  const again = await keys(['revoke', prefix])
  expect(again).toMatchObject({ code: 2, stdout: '' })
  expect(again.stderr).toContain(`There is no valid key ${prefix}.`)
  for (const wrong of [[], ['--description', ' '], ['--description', 'x', '--company', '../acme']]) {
    expect(await keys(['create', ...wrong]), String(wrong)).toMatchObject({ code: 2, stdout: '' })
  }

  const listed = await keys(['list'])
  expect(listed.stdout).toContain(prefix)
  expect(listed.stdout).toContain('ERP of the branch')
  const entries = JSON.parse((await keys(['list', '--json'])).stdout)
  expect(entries.map((entry: { description: string }) => entry.description)).toEqual([
    ...['ERP of the branch', 'CRM', 'test'],
  ])
  expect(entries[0]).toMatchObject({ prefix, company: 'acme', revokedAt: expect.stringMatching(/Z$/) })
  const stored = await readFile(join(environment.DATA_DIR as string, 'api_keys.sqlite'), 'latin1')
  for (const text of [listed.stdout, JSON.stringify(entries), stored]) {
    expect(text).not.toContain(key.slice(13))
  }
})

test('the last use of a key is recorded shortly after', async () => {
  const company = await startSynced(notices(1, 3))
  const { ask, store } = await serveApi(company.environment)
  expect(store.list(null)[0]?.lastUsedAt).toBeNull()
  await ask(PATH)
  await expect.poll(() => store.list(null)[0]?.lastUsedAt, { timeout: 15_000 }).toMatch(/Z$/)
})

test('a key sees one company, even if another has the same ids', async () => {
  const companies = await startCompanies(['acme', 'beta'], slug => [
    noticeEntry(1, { objeto: `of ${slug}` }, { items: [{ numero_item: 1, descricao: `of ${slug}` }] }),
    noticeEntry(slug === 'acme' ? 2 : 3),
  ])
  for (const slug of ['acme', 'beta']) await companies.company(slug).syncHere()
  const { keys, ask, json } = await serveApi(companies.environment, { companies: ['acme', 'beta'] })
  for (const [slug, own, foreign] of [
    ['acme', 2, 3],
    ['beta', 3, 2],
  ] as const) {
    const key = keys[slug] as string
    const page = await json<{ editais: { id: string; objeto: string }[] }>(PATH, { key })
    expect(page.editais.map(({ id }) => id).sort()).toEqual([idOf(1), idOf(own)])
    expect(await json(`${PATH}/${idOf(1)}`, { key })).toMatchObject({ objeto: `of ${slug}` })
    expect(await json(`${PATH}/${idOf(1)}/analysis`, { key })).toMatchObject({
      items: [{ numero_item: 1, descricao: `of ${slug}` }],
    })
    for (const rest of ['', '/analysis']) {
      const [theirs, missing] = await Promise.all(
        [idOf(foreign), 'unknown'].map(async id => {
          const { status, body, headers } = await ask(`${PATH}/${id}${rest}`, { key })
          const { date, 'x-request-id': request, ...others } = headers
          return { status, body: body.toString(), headers: others }
        }),
      )
      expect(theirs).toEqual(missing)
      expect(theirs).toMatchObject({ status: 404, body: '{"error":"not_found"}' })
    }
  }
})

test('a locked or replaced file of keys causes no wait, no restart and no wrong answer', async () => {
  const company = await startSynced(notices(1, 1))
  const { ask, keys, store, lines } = await serveApi(company.environment)
  const path = join(company.environment.DATA_DIR as string, 'api_keys.sqlite')
  const backup = new DatabaseSync(path)
  // A reader does not block a writer.
  backup.exec('BEGIN; SELECT count(*) FROM api_keys')
  const created = store.create('acme', 'made meanwhile', new Date())
  expect((await ask(PATH, { key: created })).status).toBe(200)
  await expect.poll(() => store.list(null)[1]?.lastUsedAt, { timeout: 15_000 }).toMatch(/Z$/)
  backup.exec('COMMIT')
  backup.close()

  // A restore: another file in its place.
  for (const name of await readdir(dirname(path)))
    if (name.startsWith('api_keys')) await rm(join(dirname(path), name), { recursive: true })
  expect((await ask(PATH)).status).toBe(401)
  const again = KeyStore.open(dirname(path), 5000)
  const fresh = again.create('acme', 'of another file', new Date())
  // On the next request, not only after a later check.
  expect((await ask(PATH, { key: keys.acme as string })).status).toBe(401)
  expect((await ask(PATH, { key: fresh })).status).toBe(200)
  again.close()
  expect(lines.filter(line => line.includes('"level":"error"'))).toEqual([])
})
