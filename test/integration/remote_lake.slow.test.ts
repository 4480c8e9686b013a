import { expect, test } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import type { TableMetadata } from '#src/extras/object_store/iceberg/metadata.ts'
import { publishLatest } from '#src/extras/object_store/remote_lake.ts'
import { readRemoteState } from '#src/extras/object_store/state.ts'
import { syncHere as syncAt } from '#test/support/here.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import {
  bytesAt,
  expectSameFiles,
  filesOfList,
  LAKE,
  latestLocal,
  latestOf,
  PUBLISHED,
  rememberMarts,
  SECRET,
  startRemote,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { companyAt, startCompany } from '#test/support/synced.ts'
import { BUCKET, type S3Server } from '#tools/s3_server.ts'

const DAY_MS = 86_400_000

const metadataOf = (s3: S3Server, table: string, version = latestOf(s3).iceberg?.[table]) =>
  JSON.parse(bytesAt(s3, `${table}/metadata/v${version}.metadata.json`).toString()) as TableMetadata

/** The files of a table's snapshot, as a reader finds them. */
async function filesOf(s3: S3Server, table: string, snapshotId: number) {
  const snapshot = metadataOf(s3, table).snapshots.find(one => one['snapshot-id'] === snapshotId)
  return await filesOfList(s3, snapshot?.['manifest-list'] ?? '')
}

/** By the tag of the snapshot. */
async function expectEqual(s3: S3Server, environment: Environment, snapshot: string): Promise<void> {
  await expectSameFiles(s3, { environment, snapshot }, table => {
    const id = metadataOf(s3, table).refs[`s-${snapshot}`]?.['snapshot-id'] ?? 0
    return filesOf(s3, table, id)
  })
}

/** The times of a snapshot, found by its tag in each table. */
function timesOf(s3: S3Server, snapshot: string): number[] {
  return Object.keys(latestOf(s3).iceberg ?? {}).map(table => {
    const { refs, snapshots } = metadataOf(s3, table)
    const tagged = snapshots.find(one => one['snapshot-id'] === refs[`s-${snapshot}`]?.['snapshot-id'])
    return tagged?.['timestamp-ms'] ?? Number.NaN
  })
}

test('a run publishes every table and mart, with all values, and a later one only what changed', async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote()
  for (const id of world.ids()) world.update(id, { edital: { data_sessao: '2026-12-10T12:00:00Z' } })
  await syncHere()
  const first = await latestLocal(environment)
  expect(latestOf(s3)).toMatchObject({ company: 'acme', snapshot: first, pending: null })
  expect(Object.keys(latestOf(s3).iceberg ?? {})).toHaveLength(PUBLISHED.length)
  await expectEqual(s3, environment, first)
  expect(new Set(timesOf(s3, first)).size).toBe(1)
  await rememberMarts(environment, first)

  const before = new Map(s3.objects)
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro objeto' } })
  await syncHere()
  const second = await latestLocal(environment)
  expect(second).not.toBe(first)
  await expectEqual(s3, environment, second)
  // The earlier snapshot can still be read.
  await expectEqual(s3, environment, first)
  for (const [key, { bytes }] of before)
    if (!/latest\.json$/.test(key)) expect(s3.objects.get(key)?.bytes.equals(bytes), key).toBe(true)
  // Its rows are the same: only the notice is in another place.
  const isDeadline = (key: string) => key.startsWith(`${LAKE}/prazos_impugnacao/data/`)
  expect([...s3.objects.keys()].filter(isDeadline)).toEqual([...before.keys()].filter(isDeadline))
  expect(await lake('verify')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Everything is there.'),
  })
  expect((await lake('status')).stdout).toMatch(
    new RegExp(`Snapshot  ${second}, as of .*\niceberg   ${PUBLISHED.length} tables\n$`),
  )
  expect(await lake('publish')).toMatchObject({ code: 0, stdout: `Already published: ${second}.\n` })
})

test('if the store is down, the local lake is correct, the problem is shown, and the next run publishes', async () => {
  const { s3, environment, sync, world, lake } = await startRemote()
  s3.fault = () => 503
  expect(await sync()).toMatchObject({ status: 'ok', loaded: 12 })
  const { stdout } = await runShared(['status'], environment)
  expect(stdout).toMatch(
    /^Store {5}has nothing yet\n {10}last attempt .*: The object store at http:.* did not read .*it answered 503/m,
  )
  expect(await lake('status')).toMatchObject({ code: 1, stderr: expect.stringContaining('answered 503') })
  // The command says so, too, and not that it found a bug in itself.
  const command = await runShared(['sync'], environment)
  expect(command).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('latest snapshot yet: The object store'),
  })
  expect(command.stderr).not.toContain('bug')
  s3.fault = () => null
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro objeto' } })
  await sync()
  const snapshot = await latestLocal(environment)
  await expectEqual(s3, environment, snapshot)
  expect((await runShared(['status'], environment)).stdout).toMatch(/^Store {5}has this snapshot$/m)
})

test('a publish that ends between two tables is finished by the next run, with its own time', async () => {
  const { s3, environment, syncHere, world } = await startRemote()
  await syncHere()
  world.update(world.ids()[0] as string, { edital: { objeto: 'Segundo' } })
  s3.fault = ({ method, key }) => (method === 'PUT' && key.includes('/items/metadata/v') ? 403 : null)
  await syncHere()
  const second = await latestLocal(environment)
  expect(latestOf(s3).pending?.snapshot).toBe(second)
  await rememberMarts(environment, second)
  expect((await runShared(['status'], environment)).stdout).toContain('Check the keys, and their rights')

  s3.fault = () => null
  world.update(world.ids()[1] as string, { edital: { objeto: 'Terceiro' } })
  await syncHere()
  const third = await latestLocal(environment)
  for (const snapshot of [second, third]) await expectEqual(s3, environment, snapshot)
  // One time for each of the three snapshots, the same in every table that has it.
  const times = Object.keys(latestOf(s3).iceberg ?? {}).flatMap(table =>
    metadataOf(s3, table).snapshots.map(one => one['timestamp-ms']),
  )
  expect(new Set(times).size).toBe(3)
  expect(timesOf(s3, third).every(Number.isFinite)).toBe(true)
})

test('two hosts that share a log publish one state of it once', async () => {
  const { s3, environment, syncHere, world, sandbox } = await startRemote({
    LOG_URL: `s3://${BUCKET}/shared`,
  })
  await syncHere()
  const published = latestOf(s3)
  const there = { ...environment, DATA_DIR: await temporaryDirectory() }
  expect(await runShared(['restore'], there)).toMatchObject({ code: 0 })
  const { remoteLake } = readSettings(there)
  const paths = companyPaths(there.DATA_DIR, 'acme')
  const publish = () =>
    publishLatest({
      settings: remoteLake as NonNullable<typeof remoteLake>,
      paths,
      now: () => new Date(),
      signal: new AbortController().signal,
    })
  expect(await publish()).toMatchObject({ written: false, uploaded: 0 })
  expect(latestOf(s3)).toEqual(published)
  expect(await readRemoteState(paths.remote)).toMatchObject({
    error: null,
    snapshot: await latestLocal(there),
  })
  const doctor = await runShared(['doctor'], there)
  expect(doctor.stdout).toContain(`The object store has the snapshot ${published.snapshot}`)

  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await companyAt(sandbox, world, there).sync()
  expect(latestOf(s3).snapshot).toBe(await latestLocal(there))
})

test('a vacuum leaves exactly what kept snapshots name, or may be about to, also if the clock was set back', {
  timeout: 180_000,
}, async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote({ LAKE_KEEP: '0s' })
  for (const [daysAgo, objeto] of ['Primeiro', 'Segundo', 'Terceiro'].entries()) {
    world.update(world.ids()[0] as string, { edital: { objeto } })
    await syncAt(environment, {}, { now: () => new Date(Date.now() - daysAgo * DAY_MS) })
  }
  const last = await latestLocal(environment)
  const orphan = { bytes: Buffer.from('x'), tag: '"x"', modified: new Date() }
  const old = { ...orphan, modified: new Date(Date.now() - 2 * DAY_MS) }
  s3.objects.set('bi/acme/lake/editais/data/new-orphan.parquet', orphan)
  s3.objects.set('bi/acme/lake/editais/data/old-orphan.parquet', old)
  expect(await lake('vacuum')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Removed 2 snapshots and \d+ objects \(\d+ kB\); 1 snapshot kept\.\n$/),
  })
  const named = new Set(['bi/acme/lake/latest.json', 'bi/acme/lake/editais/data/new-orphan.parquet'])
  for (const table of Object.keys(latestOf(s3).iceberg ?? {})) {
    const { snapshots, refs } = metadataOf(s3, table)
    expect(snapshots, table).toHaveLength(1)
    expect(Object.keys(refs), table).toEqual(['main', `s-${last}`])
    const files = await filesOf(s3, table, snapshots[0]?.['snapshot-id'] ?? 0)
    for (const { key } of files) named.add(`${LAKE}/${key}`)
  }
  expect([...s3.objects.keys()].filter(key => !key.includes('/metadata/')).sort()).toEqual([...named].sort())
  await expectEqual(s3, environment, last)
  expect(await lake('verify')).toMatchObject({ code: 0 })
  // The metadata that the first one replaced, which readers could still begin with.
  const replaced = new RegExp(`^Removed 0 snapshots and ${PUBLISHED.length} objects`)
  expect((await lake('vacuum')).stdout).toMatch(replaced)
  expect((await lake('vacuum')).stdout).toMatch(/^Removed 0 snapshots and 0 objects/)
  world.update(world.ids()[0] as string, { edital: { objeto: 'Quarto' } })
  await syncHere()
  await expectEqual(s3, environment, await latestLocal(environment))
})

test.each([
  [
    'a missing bucket',
    { LAKE_URL: 's3://other/bi' },
    /there is no such bucket\. Create it, or correct LAKE_URL or LOG_URL\./,
  ],
  [
    'a missing key file',
    { S3_CREDENTIALS_FILE: '/nowhere/keys' },
    /S3_CREDENTIALS_FILE \(\/nowhere\/keys\) cannot be read: ENOENT/,
  ],
])('%s is reported, and no key appears', async (_, settings, message) => {
  const { environment, sync, lake } = await startRemote(settings)
  await sync()
  const shown = [await runShared(['status'], environment), await lake('publish')]
  expect(shown[0]?.stdout).toMatch(message)
  expect(shown[1]).toMatchObject({ code: 1, stderr: expect.stringMatching(message) })
  expect(JSON.stringify(shown)).not.toContain(SECRET)
})

test.each([
  ['LAKE_URL', 'https://bucket/x'],
  ['LAKE_URL', 's3://Bucket'],
  ['LAKE_URL', 's3://bucket/a/../b'],
  ['LAKE_FORMATS', 'iceberg,hudi'],
  ['S3_ENDPOINT', 'ftp://store'],
  ['S3_ENDPOINT', 'http://user:secret@store'],
])('%s=%s is refused', async (name, value) => {
  const { environment } = await startCompany([], { [name]: value })
  expect(await runShared(['lake', 'status'], environment)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(name),
  })
})

test('without LAKE_URL there is no object store', async () => {
  const { environment } = await startCompany([])
  expect(await runShared(['lake', 'publish'], environment)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('LAKE_URL is not set'),
  })
})
