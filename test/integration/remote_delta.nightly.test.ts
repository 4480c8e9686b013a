import { expect, test } from 'vitest'
import type { Action, Note } from '#src/extras/object_store/delta/table.ts'
import type { Environment } from '#test/support/project.ts'
import {
  bytesAt,
  expectSameFiles,
  LAKE,
  latestLocal,
  latestOf,
  loseAnswers,
  PUBLISHED,
  ROOT,
  rememberMarts,
  startRemote,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import type { S3Server } from '#tools/s3_server.ts'

const BOTH = { LAKE_FORMATS: 'iceberg,delta' }
const DELTA = { LAKE_FORMATS: 'delta' }

const logPath = (table: string, version: number) =>
  `${table}/_delta_log/${String(version).padStart(20, '0')}.json`

function actionsOf(s3: S3Server, table: string, version: number): Action[] {
  const lines = bytesAt(s3, logPath(table, version)).toString().trim().split('\n')
  return lines.map(line => JSON.parse(line) as Action)
}

/** As a reader finds them: by every commit up to this version. */
function filesOf(s3: S3Server, table: string, version: number) {
  const present = new Map<string, number>()
  for (let each = 0; each <= version; each += 1)
    for (const { add, remove } of actionsOf(s3, table, each)) {
      if (remove) present.delete(remove.path)
      if (add) present.set(add.path, (JSON.parse(add.stats) as { numRecords: number }).numRecords)
    }
  return [...present].map(([path, rows]) => ({ key: `${table}/${path}`, rows }))
}

type Versions = Readonly<Record<string, number>>

/** At the versions that `latest.json` named when this snapshot was the latest. */
async function expectEqual(
  s3: S3Server,
  { environment, snapshot, versions }: { environment: Environment; snapshot: string; versions: Versions },
): Promise<void> {
  await expectSameFiles(s3, { environment, snapshot }, async table =>
    filesOf(s3, table, versions[table] ?? 0),
  )
}

/** Where a reader of all tables begins. */
async function stateOf(s3: S3Server, environment: Environment) {
  const snapshot = await latestLocal(environment)
  expect(latestOf(s3)).toMatchObject({ snapshot, pending: null })
  return { environment, snapshot, versions: latestOf(s3).delta ?? {} }
}

test('both formats name the same files, and earlier versions stay readable', async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote(BOTH)
  await syncHere()
  const first = await stateOf(s3, environment)
  await rememberMarts(environment, first.snapshot)
  expect(Object.keys(first.versions).sort()).toEqual([...PUBLISHED].sort())
  const uploads = s3.requests.filter(({ method, key }) => method === 'PUT' && key.endsWith('.parquet'))
  expect(new Set(uploads.map(({ key }) => key)).size).toBe(uploads.length)

  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro objeto' } })
  await syncHere()
  const second = await stateOf(s3, environment)
  expect([first.versions.editais, second.versions.editais]).toEqual([0, 1])
  // One time for all tables that changed; an unchanged table has no new version.
  const times = PUBLISHED.map(table => actionsOf(s3, table, second.versions[table] ?? 0)[0]?.commitInfo)
  expect(new Set(times.map(info => info?.inCommitTimestamp)).size).toBe(2)
  expect(second.versions.fases).toBe(0)
  for (const state of [first, second]) await expectEqual(s3, state)
  expect(await lake('verify')).toMatchObject({ code: 0 })
  expect((await lake('status')).stdout).toContain(
    `iceberg   ${PUBLISHED.length} tables\ndelta     ${PUBLISHED.length} tables\n`,
  )
})

test('bounds of a column contain all of its values, and comments name the columns', async () => {
  const { s3, syncHere, query } = await startRemote(DELTA)
  await syncHere()
  const [{ metaData }, ...adds] = actionsOf(s3, 'editais', 0).filter(one => one.metaData ?? one.add) as [
    { metaData: { schemaString: string; description: string } },
    ...Action[],
  ]
  expect(metaData.description.length).toBeGreaterThan(10)
  const { fields } = JSON.parse(metaData.schemaString) as {
    fields: { name: string; metadata: { comment: string } }[]
  }
  expect(fields.every(({ metadata }) => metadata.comment.length > 3)).toBe(true)
  type Stats = Record<'minValues' | 'maxValues', Record<string, string>>
  const stats = adds.map(({ add }) => JSON.parse(add?.stats ?? '') as Stats)
  const bounds = (side: keyof Stats, column: string) => stats.map(one => one[side][column] as string).sort()
  for (const column of ['edital_id', 'objeto', 'created_at', 'updated_at']) {
    const [low, high] = [bounds('minValues', column)[0], bounds('maxValues', column).at(-1)]
    expect([low, high]).toEqual([expect.any(String), expect.any(String)])
    const outside = `count(*) FILTER (${column} < '${low}' OR ${column} > '${high}')`
    expect(await query(`SELECT ${outside}::INTEGER AS outside, count(*) > 1 AS some FROM editais`)).toEqual([
      { outside: 0, some: true },
    ])
  }
})

test('a checkpoint takes the place of the commits before it, which a vacuum removes', {
  timeout: 180_000,
}, async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote({ ...DELTA, LAKE_KEEP: '0s' })
  for (let count = 0; count <= 11; count += 1) {
    world.update(world.ids()[0] as string, { edital: { objeto: `Objeto ${count}` } })
    await syncHere()
  }
  const state = await stateOf(s3, environment)
  expect(state.versions.editais).toBe(11)
  await expectEqual(s3, state)
  const before = s3.objects.size
  expect(await lake('vacuum')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Removed 10 snapshots and /),
  })
  expect(s3.objects.size).toBeLessThan(before)
  const logs = [...s3.objects.keys()].filter(key => key.startsWith(`${LAKE}/editais/_delta_log/`))
  expect(logs.map(key => key.split('/').at(-1)?.replace(/^0+/, '')).sort()).toEqual([
    '10.checkpoint.parquet',
    '10.json',
    '11.json',
    '_last_checkpoint',
  ])
  // From the checkpoint, because the commits are gone.
  expect(await lake('verify')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Everything is there.'),
  })
  const data = [...s3.objects.keys()].filter(key => key.startsWith(`${LAKE}/editais/data/`))
  const note = JSON.parse(actionsOf(s3, 'editais', 11)[0]?.commitInfo?.userMetadata ?? '') as Note
  expect(data.sort()).toEqual(note.files.map(path => `${LAKE}/editais/${path}`).sort())
  world.update(world.ids()[0] as string, { edital: { objeto: 'Depois' } })
  await syncHere()
  expect(latestOf(s3).delta?.editais).toBe(12)
})

test('a lost answer, a conflict and a slow-down change nothing', async () => {
  const { s3, environment, syncHere } = await startRemote(DELTA)
  loseAnswers(s3)
  await syncHere()
  const state = await stateOf(s3, environment)
  expect(Object.values(state.versions).every(version => version === 0)).toBe(true)
  await expectEqual(s3, state)
})

test('a publish that ends between two tables is finished by the next run', async () => {
  const { s3, environment, syncHere, world } = await startRemote(BOTH)
  await syncHere()
  world.update(world.ids()[0] as string, { edital: { objeto: 'Segundo' } })
  s3.fault = ({ method, key }) => (method === 'PUT' && key.includes('/editais/_delta_log/') ? 403 : null)
  await syncHere()
  const second = await latestLocal(environment)
  expect(latestOf(s3).pending?.snapshot).toBe(second)
  s3.fault = () => null
  world.update(world.ids()[1] as string, { edital: { objeto: 'Terceiro' } })
  await syncHere()
  const third = await stateOf(s3, environment)
  await expectEqual(s3, third)
  const snapshots = [0, 1, 2].map(version => {
    const [first] = actionsOf(s3, 'editais', version)
    return (JSON.parse(first?.commitInfo?.userMetadata ?? '') as Note).snapshot
  })
  expect(snapshots.slice(1)).toEqual([second, third.snapshot])
})

test('a commit by another program stops the publish with one message, and the run goes on', async () => {
  const { s3, environment, syncHere, world } = await startRemote(DELTA)
  await syncHere()
  const bytes = Buffer.from('{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE"}}\n')
  s3.objects.set(`${LAKE}/${logPath('editais', 1)}`, { bytes, tag: '"x"', modified: new Date() })
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  expect(await syncHere()).toMatchObject({ status: 'ok' })
  expect((await runShared(['status'], environment)).stdout).toContain(
    `Another program committed version 1 to the Delta table ${ROOT}/acme/lake/editais. Stop that program`,
  )
})

test('formats can be added and removed later, and a lost latest.json is made again from the tables', async () => {
  const { s3, environment, syncHere, world, lake } = await startRemote()
  const settings = environment as { LAKE_FORMATS?: string }
  await syncHere()
  expect(latestOf(s3).delta).toBeUndefined()
  const uploaded = () =>
    s3.requests.filter(({ method, key }) => method === 'PUT' && /data\//.test(key)).length
  const before = uploaded()
  settings.LAKE_FORMATS = 'iceberg,delta'
  expect(await lake('publish')).toMatchObject({ code: 0, stdout: expect.stringMatching(/: 0 new files/) })
  expect(uploaded()).toBe(before)
  await expectEqual(s3, await stateOf(s3, environment))
  settings.LAKE_FORMATS = 'delta'
  world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  await syncHere()
  expect(latestOf(s3).iceberg).toBeUndefined()
  settings.LAKE_FORMATS = 'iceberg,delta'
  s3.objects.delete(`${LAKE}/latest.json`)
  world.update(world.ids()[0] as string, { edital: { objeto: 'Ainda outro' } })
  await syncHere()
  expect(latestOf(s3)).toMatchObject({ iceberg: { editais: 2 }, delta: { editais: 2 } })
  await expectEqual(s3, await stateOf(s3, environment))
  expect(await lake('verify')).toMatchObject({ code: 0 })
})
