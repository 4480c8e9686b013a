import { mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { createLogger } from '#src/lib/log.ts'
import { KeyStore } from '#src/server/keys.ts'
import { ServedCompanies } from '#src/server/served_companies.ts'
import { startCompanies } from '#test/support/companies.ts'
import { until } from '#test/support/daemon.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'

type Served = { readonly months: number; readonly stored: number; readonly built: number }

/** What the log reports for each snapshot that was taken. */
function taken(lines: readonly string[]): Served[] {
  return lines
    .map(line => JSON.parse(line))
    .filter(({ msg }) => msg === 'Serving a new snapshot')
    .map(({ months, stored, built }) => ({ months, stored, built }))
}

/** The first snapshot taken; it is served a moment before it is logged. */
async function firstTaken({ lines }: { readonly lines: readonly string[] }): Promise<Served | undefined> {
  await until(() => taken(lines).length > 0, { what: 'a snapshot that was taken' })
  return taken(lines)[0]
}

function storeOf(environment: Environment): string {
  return join(companyDirectory(environment), 'mirror')
}

async function synced(): Promise<SyncedCompany> {
  const company = await startSynced(notices(1, 6))
  return company
}

test('a restarted or second server prepares nothing that is already prepared', async () => {
  const { environment, world, syncHere } = await synced()
  const first = await serveApi(environment)
  expect(await firstTaken(first)).toEqual({ months: 2, stored: 0, built: 2 })
  const second = await serveApi(environment)
  expect(await firstTaken(second)).toEqual({ months: 2, stored: 2, built: 0 })
  const path = `${PATH}/${idOf(1)}/analysis`
  expect((await second.ask(path)).body).toEqual((await first.ask(path)).body)

  // For a new snapshot it prepares only the changed month.
  world.update(idOf(1), { edital: { objeto: 'Outro' }, updatedAt: new Date() })
  await syncHere()
  await until(() => taken(first.lines).length === 2 && taken(second.lines).length === 2, {
    what: 'the new snapshot in both',
  })
  for (const { lines } of [first, second]) expect(taken(lines)[1]?.months).toBe(2)
  expect([...taken(first.lines), ...taken(second.lines)].every(({ built }) => built <= 2)).toBe(true)
  // The previous month was removed with its snapshot.
  await until(async () => (await readdir(storeOf(environment))).length === 2, { what: 'two months' })
})

test.each(['index.json', 'notices', 'analyses', 'search', 'sum'])(
  'a prepared month with a damaged %s is prepared again',
  async file => {
    const { environment } = await synced()
    const before = await serveApi(environment)
    const page = (await before.ask(PATH)).body
    await before.close()
    const store = storeOf(environment)
    const [month = ''] = await readdir(store)
    const path = join(store, month, file)
    await writeFile(path, (await readFile(path)).subarray(0, -1))
    const after = await serveApi(environment)
    expect(await firstTaken(after)).toEqual({ months: 2, stored: 1, built: 1 })
    expect((await after.ask(PATH)).body).toEqual(page)
  },
)

test.each(['index.json', 'notices', 'analyses', 'search', 'sum'])(
  'a prepared month without its %s is prepared again',
  async file => {
    const { environment } = await synced()
    const before = await serveApi(environment)
    await before.close()
    const [month = ''] = await readdir(storeOf(environment))
    await rm(join(storeOf(environment), month, file))
    const after = await serveApi(environment)
    expect(await firstTaken(after)).toEqual({ months: 2, stored: 1, built: 1 })
  },
)

test('a builder that cannot be started fails only its snapshot, which is retried', async () => {
  const { environment } = await synced()
  const { execPath } = process
  process.execPath = '/nowhere/node'
  const failing = serveApi(environment, { ready: [] })
  const { ask, lines } = await failing
  try {
    await until(() => lines.join('').includes('a builder process cannot be started'), { what: 'a failure' })
    expect((await ask(PATH)).status).toBe(503)
  } finally {
    process.execPath = execPath
  }
  await until(async () => (await ask(PATH)).status === 200, { what: 'the next try' })
})

test('an analysis damaged on the disk is never sent, and is soon available again', async () => {
  const { environment } = await synced()
  const first = await serveApi(environment)
  const path = `${PATH}/${idOf(1)}/analysis`
  const { body } = await first.ask(path)
  for (const month of await readdir(storeOf(environment))) {
    const analyses = join(storeOf(environment), month, 'analyses')
    const bytes = await readFile(analyses)
    // Of the same size: only the content is wrong.
    await writeFile(
      analyses,
      bytes.map(byte => byte ^ 1),
    )
  }
  const refused = await first.ask(path)
  expect([refused.status, JSON.parse(refused.body.toString()).error]).toEqual([503, 'analysis_not_available'])
  await until(async () => (await first.ask(path)).status === 200, { what: 'the analysis' })
  expect((await first.ask(path)).body).toEqual(body)
  expect(first.lines.join('')).toContain('damaged on disk')
})

test('leftovers of a killed process are removed, unless it may still be running', async () => {
  const { environment } = await synced()
  const first = await serveApi(environment)
  await first.close()
  const store = storeOf(environment)
  for (const name of ['part-old', 'part-new']) await mkdir(join(store, name))
  const hoursAgo = new Date(Date.now() - 2 * 3_600_000)
  await utimes(join(store, 'part-old'), hoursAgo, hoursAgo)
  await serveApi(environment)
  // Requests do not wait for it.
  await until(async () => !(await readdir(store)).includes('part-old'), { what: 'the old one to be removed' })
  const names = await readdir(store)
  expect(names.filter(name => name.includes('-'))).toEqual(['part-new'])
})

test('a few builders prepare all companies, those with the least to prepare first', async () => {
  // Each has two months, except the small one.
  const sizes = { large: 300, small: 1, middle: 60 }
  const companies = await startCompanies(Object.keys(sizes), slug =>
    notices(1, sizes[slug as keyof typeof sizes]),
  )
  for (const slug of Object.keys(sizes)) await companies.company(slug).syncHere()
  const dataDir = companies.environment.DATA_DIR as string
  const store = KeyStore.open(dataDir, 5000)
  for (const slug of Object.keys(sizes)) store.create(slug, 'test', new Date(), null)
  store.close()
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(line) })
  const findLake = (slug: string) => companyPaths(dataDir, slug).lake
  const mirror = new ServedCompanies({
    dataDir,
    builders: 1,
    findLake,
    findLog: () => null,
    log,
    now: () => new Date(),
  })
  const ready = () => lines.map(line => JSON.parse(line).company as string)
  try {
    await until(() => ready().length === 3, { what: () => `three snapshots; ${lines.join('')}` })
  } finally {
    await mirror.close()
  }
  // Month by month, the one with the least left: the large one started before the others were there.
  expect(ready()[0]).toBe('small')
})
