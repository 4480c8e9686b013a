import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import type { Line } from '#src/core/rawlog/line.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { Database, type Row } from '#src/core/warehouse/database.ts'
import { rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import { replay } from '#src/operate/replay.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { patchedCopy, runIn } from '#test/support/patched_copy.ts'
import { type LogLine, rawDirectory, readLog } from '#test/support/prepared.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { dataTables, queryWarehouse, type Tables, warehouseTables } from '#test/support/tables.ts'
import { expectTruth } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')
const [UNPRICED, NAMELESS] = [idOf(1), idOf(2)]
const [UNREADABLE, CHANGED, GONE] = [idOf(2), idOf(4), idOf(5)]

type OfType<T extends Line['type']> = Extract<Line, { type: T }>

/** The properties of each type of line. Add new ones here, and to the tested log. */
const PROPERTIES: {
  readonly [T in Line['type']]: {
    readonly [P in keyof OfType<T>]-?: undefined extends OfType<T>[P] ? 'sometimes' : 'always'
  }
} = {
  run_started: {
    type: 'always',
    mode: 'always',
    analysis_statuses: 'always',
    refetch_before: 'sometimes',
    company: 'always',
    log: 'sometimes',
  },
  notice: {
    type: 'always',
    edital_id: 'always',
    updated_at: 'always',
    drift: 'sometimes',
    raw: 'sometimes',
    fetched_in: 'sometimes',
  },
  analysis: {
    type: 'always',
    edital_id: 'always',
    updated_at: 'always',
    source_updated_at: 'always',
    hash: 'always',
    drift: 'sometimes',
    raw: 'sometimes',
    fetched_at: 'sometimes',
    fetched_in: 'sometimes',
  },
  analysis_same: {
    type: 'always',
    edital_id: 'always',
    updated_at: 'always',
    source_updated_at: 'always',
    hash: 'always',
  },
  gone: { type: 'always', edital_id: 'always', hash: 'sometimes' },
  rejected: {
    type: 'always',
    edital_id: 'always',
    kind: 'always',
    reason: 'always',
    path: 'always',
    updated_at: 'sometimes',
    hash: 'always',
    raw: 'always',
    excerpt: 'always',
  },
  run_finished: { type: 'always', report: 'always', drift: 'sometimes' },
  lost: { type: 'always', mode: 'sometimes', reason: 'always', log: 'sometimes' },
}

/** A version that required what the contract makes optional. */
const STRICTER = [
  {
    file: 'schema/analysis.ts',
    from: 'part: PRICING,\n    nullable: true,',
    to: 'part: PRICING,\n    always: true,',
  },
  {
    file: 'schema/notice.ts',
    from: "orgao: {\n    type: 'string',",
    to: "orgao: {\n    type: 'string',\n    always: true,",
  },
]

/** A version that knows two more fields, one of notices and one of items. */
const WIDER = [
  {
    file: 'schema/notice.ts',
    from: '  numero: {',
    to: "  dias: { type: 'integer', description: 'Days left', portuguese: ['Dias', 'Dias que restam'] },\n  numero: {",
  },
  {
    file: 'schema/analysis.ts',
    from: '    unidade_medida: {',
    to: "    marca: { type: 'string', description: 'Brand', portuguese: ['Marca', 'Marca'] },\n    unidade_medida: {",
  },
]

test('this version uses what a stricter one set aside, without new requests, and the stricter one can return', async () => {
  const company = await startCompany(notices(1, 4))
  const { environment, world } = company
  world.update(UNPRICED, { analysis: { pricing: null } })
  world.update(NAMELESS, { edital: { orgao: undefined } })
  const stricter = await patchedCopy(STRICTER)

  expect(await syncIn(stricter, environment, 3)).toMatchObject({ listed: 4, loaded: 2, quarantined: 2 })
  expect(await quarantined(environment)).toEqual([
    { edital_id: UNPRICED, kind: 'analysis', path: 'pricing' },
    { edital_id: NAMELESS, kind: 'notice', path: 'orgao' },
  ])
  await expectUsable(company, { loaded: 2 })
  // Only the list contained the notice that is new now.
  expect(await company.syncHere()).toMatchObject({ status: 'ok', unchanged: 3, loaded: 1, requests: 2 })
  await expectTruth(company)
  const before = await everything(environment)

  // The older version again: it cannot use the new data, and leaves existing data intact.
  world.update(UNPRICED, { edital: { numero: '7' }, updatedAt: NOON })
  const report = await syncIn(stricter, environment, 3)
  expect(report).toMatchObject({ listed: 4, unchanged: 2, changed: 1, quarantined: 2, tombstoned: 0 })
  const after = await everything(environment)
  for (const table of ['analyses', 'requirements', 'items', 'alerts', 'analysis_versions']) {
    expect(after[table], table).toEqual(before[table])
  }
  expect(await queryWarehouse(environment, 'SELECT 1 FROM editais WHERE deleted_at IS NOT NULL')).toEqual([])

  await expectUsable(company, { loaded: 2 })
  await expectTruth(company)
})

/** Replays with this version: everything set aside is used, without a request. */
async function expectUsable(
  { environment, sandbox }: SyncedCompany,
  expected: Partial<RunReport>,
): Promise<void> {
  sandbox.requests.reset()
  const { report } = await replay(contextHere(environment))
  expect(report).toMatchObject({ ...expected, status: 'ok', quarantined: 0, requests: 0 })
  expect(sandbox.requests.total).toBe(0)
  expect(await quarantined(environment)).toEqual([])
}

test('a log with every kind of line gives the same tables again, also with a wider schema', async () => {
  const company = await startWithEveryLine()
  const { environment } = company
  expect(missingFrom(await readLog(company))).toEqual([])

  const before = await everything(environment)
  await rebuildHere(environment)
  expect(await everything(environment)).toEqual(before)
  const published = await latestCatalog(environment)

  // A version with two more columns rebuilds the warehouse itself, from the raw log.
  const wider = await patchedCopy(WIDER)
  expect(await syncIn(wider, environment)).toMatchObject({ changed: 0, loaded: 0, requests: 1 })
  const latest = await latestCatalog(environment)
  const sql = `SELECT edital_id, dias, marca FROM editais JOIN items USING (edital_id) ORDER BY ALL`
  expect(await rowsOf(latest, sql)).toEqual(
    [1, 2, 3, 4, 5, 6].map(n => ({
      edital_id: idOf(n),
      dias: n < 6 ? n : null,
      marca: n < 6 ? 'Acme' : null,
    })),
  )
  expect(await rowsOf(latest, 'SELECT count(*) AS n, count(dias) AS known FROM edital_versions')).toEqual([
    { n: 8, known: 7 },
  ])

  // The previous snapshot still reads as before, and this version can return as well.
  expect(await rowsOf(published, 'SELECT count(*) AS n, count(numero) AS numbers FROM editais')).toEqual([
    { n: 6, numbers: 1 },
  ])
  await expect(rowsOf(published, 'SELECT dias FROM editais')).rejects.toThrow('dias')
  expect(await company.syncHere()).toMatchObject({ status: 'ok', changed: 0, loaded: 0, requests: 1 })
  expect(dataTables(await everything(environment))).toEqual(dataTables(before))
})

/** Runs of every mode, and a segment of an older version: the log has everything in `PROPERTIES`. */
async function startWithEveryLine(): Promise<SyncedCompany> {
  const items = [{ numero_item: 1, marca: 'Acme' }]
  const company = await startCompany([
    ...[1, 2, 4, 5].map(number => noticeEntry(number, { dias: number }, { items })),
    noticeEntry(3, { dias: 3, valor_estimado: '12.5' }, { items, pricing: { investimento_total: 'muito' } }),
    noticeEntry(6, {}, { items: [{ numero_item: 1 }] }),
  ])
  const { world, faults, environment } = company
  faults.plan = [
    { fault: 'truncate', kinds: ['analysis'], ids: [UNREADABLE] },
    { fault: 'mutate', kinds: ['list'], mutate: withUnusable },
  ]
  await company.syncHere()
  faults.plan = []
  await logAsOlderVersion(company, UNREADABLE)
  await replay(contextHere(environment))
  world.remove(GONE)
  await company.syncHere({ full: true })
  world.update(CHANGED, { edital: { numero: '4' }, updatedAt: NOON })
  await company.syncHere({ ids: [CHANGED] })
  return company
}

/** A list with two elements that are not notices, one of them with an id, and an unknown property. */
function withUnusable(body: unknown): unknown {
  const page = body as { editais: unknown[] }
  const editais = [...page.editais, { id: 'ghost' }, {}]
  return { ...page, editais, count: editais.length, total: editais.length, novo: true }
}

/** Writes a segment of an older version that could not use a notice and its analysis, and lost data. */
async function logAsOlderVersion(company: SyncedCompany, id: string): Promise<void> {
  const { environment, world } = company
  const [first] = await readLog(company)
  const directory = rawDirectory(environment)
  const firstNumber = (await listSealedSegments(directory)).length + 1
  const now = () => new Date('2026-11-01T10:00:00Z')
  const log = new RawLogWriter({ directory, firstNumber, runId: 'older', now })
  const { edital, analysis } = world.entry(id) as Entry
  const raw = Buffer.from(JSON.stringify(analysis)).toString('base64')
  await log.append({ type: 'run_started', mode: 'incremental', analysis_statuses: [], company: 'acme' })
  await log.append({
    type: 'rejected',
    edital_id: id,
    kind: 'analysis',
    reason: 'expected something else',
    path: '$',
    updated_at: edital.updated_at,
    hash: 'of an older version',
    raw,
    excerpt: '{',
  })
  await log.append({
    type: 'rejected',
    edital_id: id,
    kind: 'notice',
    reason: 'expected something else',
    path: '$',
    hash: 'of a notice',
    raw: Buffer.from(JSON.stringify(edital)).toString('base64'),
    excerpt: '{',
  })
  await log.append({ type: 'lost', mode: 'salvage', reason: 'Damaged.', log: String(first?.run_id) })
  await log.append({ type: 'lost', reason: 'Its start was lost.' })
  await log.seal()
  await log.close()
}

/** Properties and modes missing from the log; an optional property must also be absent in some line. */
function missingFrom(lines: readonly LogLine[]): string[] {
  const modes = ['full', 'incremental', 'filtered', 'replay'].filter(
    mode => !lines.some(line => line.type === 'run_started' && line.mode === mode),
  )
  const properties = Object.entries(PROPERTIES).flatMap(([type, names]) => {
    const ofType = lines.filter(line => line.type === type)
    return Object.entries(names).flatMap(([name, always]) => {
      const having = ofType.filter(line => line[name] !== undefined).length
      const wanted = always === 'always' ? having === ofType.length : having < ofType.length
      return having > 0 && wanted ? [] : [`${type}.${name}: ${having} of ${ofType.length}`]
    })
  })
  return [...modes, ...properties]
}

async function rebuildHere(environment: Environment): Promise<void> {
  const context = contextHere(environment)
  const warehouse = await rebuildWarehouse(openOptions(context))
  await publishWarehouse(context, warehouse)
  warehouse.db.close()
}

/** All that a rebuild must reproduce; the log does not have the warehouse's own name. */
async function everything(environment: Environment): Promise<Tables> {
  return await warehouseTables(environment, ['warehouse_id'])
}

/** What is set aside now. */
async function quarantined(environment: Environment): Promise<Row[]> {
  return await queryWarehouse(
    environment,
    'SELECT edital_id, kind, path FROM quarantine WHERE resolved_at IS NULL ORDER BY ALL',
  )
}

/** Runs `sync --json` of another version. */
async function syncIn(copy: string, environment: Environment, code = 0): Promise<RunReport> {
  const ended = await runIn(copy, ['sync', '--json'], environment)
  expect(ended, ended.stderr).toMatchObject({ code })
  return JSON.parse(ended.stdout) as RunReport
}

async function latestCatalog(environment: Environment): Promise<string> {
  return join(await realpath(join(companyDirectory(environment), 'lake/latest')), 'catalog.duckdb')
}

async function rowsOf(catalog: string, sql: string): Promise<Row[]> {
  const db = await Database.open(catalog, { readOnly: true, threads: 1 })
  try {
    return await db.rows(sql)
  } finally {
    db.close()
  }
}

test('after many random changes the warehouse matches what the company has', async () => {
  const world = generateWorld({ seed: 'truth', company: 'acme', notices: 25, start: NOON })
  const company = await startCompany(world)
  const random = createRandom('changes 1')
  await company.syncHere()
  for (let hour = 1; hour <= 60; hour += 1) {
    tick(world, random, new Date(NOON.getTime() + hour * 3_600_000))
    if (hour % 20 > 0) continue
    // Only refetching finds silent changes.
    expect((await company.syncHere({ full: true })).loaded).toBe(world.size)
    await expectTruth(company)
  }
  const [deleted] = await company.query('SELECT count(*) AS n FROM editais WHERE deleted_at IS NOT NULL')
  expect(deleted?.n).toBe(world.removedIds().length)
  expect(deleted?.n).toBeGreaterThan(0)
})
