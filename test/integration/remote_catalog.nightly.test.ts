import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import {
  expectSameFiles,
  filesOfList,
  LAKE,
  latestLocal,
  latestOf,
  PUBLISHED,
  ROOT,
  rememberMarts,
  startRemoteWithCatalog,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { type CatalogServer, CLIENT, type Table } from '#tools/iceberg_catalog.ts'
import type { S3Server } from '#tools/s3_server.ts'

const NAMESPACE = 'editais_acme'
const TOKEN = 'token-of-the-test'

async function startWithCatalog(settings: Environment = {}) {
  const company = await startRemoteWithCatalog(settings)
  const status = async () => (await runShared(['status'], company.environment)).stdout
  const rename = (objeto: string, index = 0) =>
    company.world.update(company.world.ids()[index] as string, { edital: { objeto } })
  return { ...company, status, rename }
}

function tableOf({ tables }: CatalogServer, name: string): Table {
  const table = tables.get(`${NAMESPACE}.${name}`)
  if (!table) throw new Error(`the catalog has no ${name}`)
  return table
}

const idOf = ({ refs }: Table, snapshot: string) => refs[`s-${snapshot}`]?.['snapshot-id']

/** In every table, by the tag of the snapshot. */
async function expectEqual(
  s3: S3Server,
  catalog: CatalogServer,
  { environment, snapshot }: { environment: Environment; snapshot: string },
): Promise<void> {
  await expectSameFiles(s3, { environment, snapshot }, name => {
    const table = tableOf(catalog, name)
    const tagged = table.snapshots.find(one => one['snapshot-id'] === idOf(table, snapshot))
    return filesOfList(s3, String(tagged?.['manifest-list']))
  })
}

const commits = ({ requests }: CatalogServer) => requests.filter(({ path }) => path.endsWith('/commit'))

test('a catalog gets all tables in one transaction, and keeps earlier snapshots by tag and by time', async () => {
  const { s3, catalog, environment, syncHere, rename, lake } = await startWithCatalog({
    LAKE_FORMATS: 'iceberg,delta',
    LAKE_KEEP: '0s',
  })
  await syncHere()
  const first = await latestLocal(environment)
  await rememberMarts(environment, first)
  expect(latestOf(s3)).toMatchObject({ snapshot: first, pending: null })
  expect(Object.keys(latestOf(s3).catalog ?? {})).toHaveLength(PUBLISHED.length)
  expect(catalog.tables.size).toBe(PUBLISHED.length)
  await expectEqual(s3, catalog, { environment, snapshot: first })
  rename('Outro objeto')
  await syncHere()
  const second = await latestLocal(environment)
  for (const snapshot of [first, second]) await expectEqual(s3, catalog, { environment, snapshot })
  expect(commits(catalog)).toHaveLength(2)
  // The time of a snapshot finds the same as its tag.
  const at = Date.parse(latestOf(s3).published_at ?? '')
  for (const name of PUBLISHED) {
    const table = tableOf(catalog, name)
    const timed = table.snapshots.findLast(one => one['timestamp-ms'] <= at)
    expect([name, timed?.['snapshot-id']]).toEqual([name, idOf(table, second)])
    expect(latestOf(s3).catalog?.[name]).toBe(idOf(table, second))
  }
  // The catalog has its own ids, and no metadata of ours.
  const fields = tableOf(catalog, 'editais').schemas[0]?.fields
  expect(fields?.[0]?.id).toBeGreaterThan(1)
  const { orders, defaultOrder } = tableOf(catalog, 'editais')
  const order = orders.find(one => one['order-id'] === defaultOrder)
  expect(order?.fields.map(field => field['source-id'])).toEqual([
    fields?.find(({ name }) => name === 'edital_id')?.id,
  ])
  expect([...s3.objects.keys()].filter(key => /\/v\d+\.metadata\.json$/.test(key))).toEqual([])
  expect(await lake('verify')).toMatchObject({ code: 0 })
  expect((await lake('status')).stdout).toContain(`catalog   ${PUBLISHED.length} tables`)
  expect((await lake('publish')).stdout).toBe(`Already published: ${second}.\n`)
})

test('a vacuum removes old snapshots from the catalog, and never its metadata', async () => {
  const { s3, catalog, environment, syncHere, rename, lake } = await startWithCatalog({ LAKE_KEEP: '0s' })
  for (const objeto of ['Primeiro', 'Segundo', 'Terceiro']) {
    rename(objeto)
    await syncHere()
  }
  const modified = new Date(Date.now() - 2 * 86_400_000)
  const old = { bytes: Buffer.from('x'), tag: '"x"', modified }
  const own = `${LAKE}/editais/metadata/00003-0f0e.metadata.json`
  s3.objects.set(own, old).set(`${LAKE}/editais/metadata/${'a'.repeat(32)}.avro`, old)
  expect((await lake('vacuum')).stdout).toMatch(
    /^Removed 2 snapshots and \d+ objects .*; 1 snapshot kept\.\n$/,
  )
  const snapshot = await latestLocal(environment)
  for (const name of PUBLISHED) {
    const { snapshots, refs } = tableOf(catalog, name)
    expect([name, snapshots.length, Object.keys(refs)]).toEqual([name, 1, ['main', `s-${snapshot}`]])
  }
  expect(s3.objects.has(own)).toBe(true)
  expect([...s3.objects.keys()].filter(key => key.endsWith('aaaa.avro'))).toEqual([])
  await expectEqual(s3, catalog, { environment, snapshot })
  expect((await lake('vacuum')).stdout).toMatch(/^Removed 0 snapshots and 0 objects/)
  expect(await lake('verify')).toMatchObject({ code: 0 })
})

test('without transactions each table is committed, and an interrupted publish is finished', async () => {
  const { s3, catalog, environment, syncHere, rename, status } = await startWithCatalog()
  catalog.hasTransactions = false
  await syncHere()
  rename('Segundo')
  catalog.fault = ({ path, method }) => (method === 'POST' && path.endsWith('/tables/items') ? 403 : null)
  await syncHere()
  const second = await latestLocal(environment)
  await rememberMarts(environment, second)
  expect(latestOf(s3).pending?.snapshot).toBe(second)
  expect(await status()).toContain(
    `did not commit to ${NAMESPACE}.items (403): injected. Set ICEBERG_CREDENTIAL`,
  )
  catalog.fault = () => null
  rename('Terceiro', 1)
  await syncHere()
  const third = await latestLocal(environment)
  for (const snapshot of [second, third]) await expectEqual(s3, catalog, { environment, snapshot })
  const times = PUBLISHED.flatMap(name =>
    tableOf(catalog, name).snapshots.map(one => one['timestamp-ms'] as number),
  )
  expect(new Set(times).size).toBe(3)
})

test('after a lost answer the publish checks whether it was committed', async () => {
  const { s3, catalog, environment, syncHere, rename, status } = await startWithCatalog()
  const lost = new Set<string>()
  catalog.fault = ({ method, path }) => {
    if (lost.has(path)) return null
    lost.add(path)
    return method === 'POST' && !path.endsWith('/tables') ? 'lose' : null
  }
  await syncHere()
  expect(lost.has('of/this/transactions/commit')).toBe(true)
  const first = await latestLocal(environment)
  await rememberMarts(environment, first)
  rename('Segundo')
  await syncHere()
  const second = await latestLocal(environment)
  expect(latestOf(s3)).toMatchObject({ snapshot: second, pending: null })
  for (const snapshot of [first, second]) await expectEqual(s3, catalog, { environment, snapshot })

  catalog.fault = ({ path }) => (path.endsWith('/commit') ? 504 : null)
  rename('Terceiro')
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  expect(await status()).toMatch(
    /The catalog at http\S+ did not answer a commit\. The next run publishes again\./,
  )
  catalog.fault = ({ path }) => (path.endsWith('/commit') ? 409 : null)
  await syncHere()
  expect(await status()).toMatch(/\(409\): injected\. Another program changed it meanwhile\. The next run /)
  catalog.fault = () => null
  await syncHere()
  await expectEqual(s3, catalog, { environment, snapshot: await latestLocal(environment) })
  expect(tableOf(catalog, 'editais').snapshots).toHaveLength(3)
})

test('tables that are not ours are left alone', async () => {
  const { catalog, environment, syncHere, rename, status, lake } = await startWithCatalog()
  await syncHere()
  const table = tableOf(catalog, 'editais')
  const [snapshot] = table.snapshots
  table.snapshots.push({ ...snapshot, 'snapshot-id': 7, summary: {} } as (typeof table.snapshots)[number])
  rename('Outro')
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  expect(await status()).toContain(
    `Another program committed snapshot 7 to the table ${NAMESPACE}.editais. Stop that program, and roll the table back.`,
  )
  table.snapshots.pop()
  table.properties['editais-sync.company'] = 'globex'
  expect((await lake('publish')).stderr).toContain(
    `The table ${NAMESPACE}.editais belongs to the company globex. Put {company} into ICEBERG_NAMESPACE.`,
  )
  delete table.properties['editais-sync.company']
  expect((await lake('publish')).stderr).toContain(`${NAMESPACE}.editais belongs to another program.`)
  expect((await runShared(['doctor', '--quick'], environment)).stdout).toMatch(
    /✓ store +The catalog at http\S+ has the tables of editais_acme/,
  )
})

test('tables that somebody dropped are created again by the next publish', async () => {
  const { s3, catalog, environment, syncHere, lake } = await startWithCatalog({
    ICEBERG_NAMESPACE: 'bi.{company}',
  })
  await syncHere()
  const kept = catalog.tables.get('bi.acme.items')
  catalog.tables.clear()
  if (kept) catalog.tables.set('bi.acme.items', kept)
  expect(await lake('verify')).toMatchObject({ code: 1 })
  const snapshot = await latestLocal(environment)
  expect((await lake('publish')).stdout).toBe(`Published ${snapshot}: 0 new files, 0 kB.\n`)
  expect(catalog.tables.size).toBe(PUBLISHED.length)
  expect(await lake('verify')).toMatchObject({ code: 0 })
  expect(Object.keys(latestOf(s3).catalog ?? {})).toHaveLength(PUBLISHED.length)
})

test('a catalog that shows only the current snapshot gets every one, and a vacuum leaves its files', async () => {
  const { s3, catalog, environment, syncHere, rename, lake } = await startWithCatalog({ LAKE_KEEP: '0s' })
  catalog.keepsHistory = false
  await syncHere()
  rename('Outro')
  await syncHere()
  await expectEqual(s3, catalog, { environment, snapshot: await latestLocal(environment) })
  expect((await lake('vacuum')).stdout).toMatch(/^Removed 0 snapshots and 0 objects/)
})

test('a token or an OAuth client signs in, and neither appears anywhere', async () => {
  const keys = await temporaryDirectory()
  const [token, secret] = [join(keys, 'token'), join(keys, 'secret')]
  await writeFile(token, `${TOKEN}\n`)
  await writeFile(secret, `${CLIENT.id}:${CLIENT.secret}\n`)
  const { catalog, environment, syncHere, status, lake } = await startWithCatalog({
    ICEBERG_CREDENTIAL_FILE: token,
  })
  catalog.token = TOKEN
  await syncHere()
  expect((await lake('verify')).code).toBe(0)
  const oauth = { ...environment, ICEBERG_CREDENTIAL_FILE: secret }
  expect(await runShared(['lake', 'verify'], oauth)).toMatchObject({ code: 0 })

  await writeFile(token, 'an-old-token')
  await writeFile(secret, `${CLIENT.id}:an-old-secret`)
  const shown = [await lake('publish'), await runShared(['lake', 'publish'], oauth)]
  expect(shown[0]?.stderr).toContain(
    '(401): Not authorized: Bearer ***. Check the token or client in ICEBERG_CREDENTIAL_FILE',
  )
  await writeFile(secret, ':no-client')
  expect((await runShared(['lake', 'publish'], oauth)).stderr).toContain(
    `(${secret}) must have one line: a token, or CLIENT:SECRET.`,
  )
  expect(shown[1]?.stderr).toMatch(/The authorization server at \S+ returned no token \(401\): .*with \*\*\*/)
  expect(JSON.stringify([shown, await status()])).not.toMatch(/an-old|of-the-(test|client)/)
})

test.each([
  ['config', 200, 'no JSON', /does not answer as an Iceberg REST catalog \(its configuration\)\. Check ICEB/],
  ['config', 200, '{"overrides": {"prefix": "%"}}', /\(its configuration\)/],
  ['config', 200, '{"overrides": {"namespace-separator": "\\n /"}}', /\(its configuration\)/],
  ['tables/editais', 200, '{"metadata": {"table-uuid": 7}}', /\(the metadata of a table\)/],
  ['config', 302, '', /redirects \(302\)/],
  ['config', 418, '{"error": {"message": "\\u001b[31mred\\nline"}}', /\(418\): \[31mred line\.\n/],
])('a malformed answer to %s is reported in one sentence: %s %s', async (path, status, body, message) => {
  const { catalog, lake, syncHere } = await startWithCatalog()
  catalog.fault = request => (request.path.endsWith(path) ? { status, body } : null)
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  const { code, stderr } = await lake('publish')
  expect([code, stderr.trim().split('\n').length]).toEqual([1, 1])
  expect(stderr).toMatch(message)
  expect(stderr).not.toContain('\u001b')
})

test.each([
  [
    'ICEBERG_CATALOG_URI',
    'http://127.0.0.1:9',
    /The catalog at http:\/\/127\.0\.0\.1:9 did not return its configuration/,
  ],
  ['ICEBERG_WAREHOUSE', 'other', /did not return its configuration \(404\): no such warehouse\./],
])('%s=%s is reported', async (name, value, message) => {
  const { lake, syncHere } = await startWithCatalog({ [name]: value })
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  expect(await lake('publish')).toMatchObject({ code: 1, stderr: expect.stringMatching(message) })
})

test.each([
  [{ ICEBERG_CATALOG_URI: 'http://user:secret@catalog' }, 'ICEBERG_CATALOG_URI'],
  [{ ICEBERG_NAMESPACE: 'a b' }, 'ICEBERG_NAMESPACE'],
  [{ ICEBERG_TOKEN_FILE: 'a' }, 'ICEBERG_CREDENTIAL_FILE names a file with the token'],
])('%j is refused', async (settings, message) => {
  const { environment } = await startCompany([], {
    LAKE_URL: ROOT,
    ICEBERG_CATALOG_URI: 'http://127.0.0.1:9',
    ...settings,
  })
  expect(await runShared(['lake', 'status'], environment)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(message),
  })
})

test('a catalog whose clock is ahead gets snapshots that are not older than its tables', async () => {
  const { s3, catalog, environment, syncHere, status, rename } = await startWithCatalog()
  catalog.now = () => new Date(Date.now() + 600_000)
  await syncHere()
  const first = await latestLocal(environment)
  expect(latestOf(s3)).toMatchObject({ snapshot: first, pending: null })
  rename('Outro objeto')
  await syncHere()
  expect(await status()).not.toContain('before the last change')
  const { snapshot, published_at } = latestOf(s3)
  expect(snapshot).toBe(await latestLocal(environment))
  // One time for all tables, and a later one for each snapshot.
  const times = [...catalog.tables.values()].map(table => table.snapshots.at(-1)?.['timestamp-ms'])
  expect(Math.max(...times.map(Number))).toBe(Date.parse(published_at ?? ''))
})
