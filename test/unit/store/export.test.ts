import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { analysisVersions, editais, listPublishedColumns, syncRuns, type Table } from '#schema/tables.ts'
import { type EarlyFile, type Previous, planTable, writeTable } from '#src/core/lake/export.ts'
import type { Manifest, SnapshotFile } from '#src/core/lake/manifest.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { openWarehouseCase, type WarehouseCase } from '#test/support/warehouse.ts'

const ACCESS = { mode: 0o750, group: process.getgid?.() ?? 0 }

function version(table: Table, month: string, segment: number) {
  return { table_name: table.name, month, version: segment }
}

function fileOf(table: Table, month: string | null): SnapshotFile {
  return { path: `${table.name}/${month ?? 'empty'}.parquet`, month, rows: 1, bytes: 1, sha256: '' }
}

/** A snapshot of the log up to a segment. */
function getSnapshot(table: Table, applied: number, ...months: readonly (string | null)[]): Previous {
  const files = months.map(month => fileOf(table, month))
  const manifest = { applied_segment: applied, tables: { [table.name]: { files } } } as unknown as Manifest
  return { directory: '/before', manifest }
}

function reusedOf(table: Table, month: string) {
  return { directory: '/before', file: fileOf(table, month) }
}

/** A month that was written when so many segments were applied. */
function earlyOf(table: Table, month: string, segment: number): EarlyFile {
  return { table: table.name, segment, directory: `/early/${segment}`, file: fileOf(table, month) }
}

describe('the plan of a table', () => {
  it('writes the months that a later segment touched, and links the others', () => {
    const previous = getSnapshot(editais, 5, '2026-09', '2026-10', '2026-11')
    const versions = [
      version(editais, '2026-09', 4),
      version(editais, '2026-10', 5),
      version(editais, '2026-11', 6),
    ]
    expect(planTable(editais, previous, versions)).toEqual({
      table: editais,
      stale: ['2026-11'],
      reused: [reusedOf(editais, '2026-09'), reusedOf(editais, '2026-10')],
    })
  })

  it('writes a month that is new', () => {
    const plan = planTable(editais, getSnapshot(editais, 5, '2026-10'), [version(editais, '2026-12', 6)])
    expect(plan).toMatchObject({ stale: ['2026-12'], reused: [reusedOf(editais, '2026-10')] })
  })

  it('writes all months if there is no snapshot to continue from', () => {
    const versions = [version(editais, '2026-10', 0), version(editais, '2026-11', 6)]
    expect(planTable(editais, null, versions)).toEqual({
      table: editais,
      stale: ['2026-10', '2026-11'],
      reused: [],
    })
  })

  it('is not affected by other tables', () => {
    const previous = getSnapshot(analysisVersions, 5, '2026-10')
    expect(planTable(analysisVersions, previous, [version(editais, '2026-10', 6)])).toMatchObject({
      stale: [],
      reused: [reusedOf(analysisVersions, '2026-10')],
    })
  })

  it('reuses no file without a month: its table had no rows', () => {
    const plan = planTable(editais, getSnapshot(editais, 5, null), [version(editais, '2026-10', 6)])
    expect(plan).toMatchObject({ stale: ['2026-10'], reused: [] })
  })

  it('links a month that was written early unless a later segment touched it', () => {
    const early = [6, 7].map(segment => earlyOf(editais, `2026-0${segment}`, segment)) as [
      EarlyFile,
      EarlyFile,
    ]
    const versions = [6, 7].map(month => version(editais, `2026-0${month}`, 7))
    expect(planTable(editais, getSnapshot(editais, 5, '2026-06', '2026-07'), versions, early)).toEqual({
      table: editais,
      stale: ['2026-06'],
      reused: [early[1]],
    })
  })

  it('links the last of what was written early for a month, and nothing of another table', () => {
    const early = [
      ...[6, 7].map(segment => earlyOf(editais, '2026-10', segment)),
      earlyOf(analysisVersions, '2026-11', 7),
    ] as [EarlyFile, EarlyFile, EarlyFile]
    const versions = ['2026-10', '2026-11'].map(month => version(editais, month, 6))
    expect(planTable(editais, null, versions, early)).toEqual({
      table: editais,
      stale: ['2026-11'],
      reused: [early[1]],
    })
  })

  it('always writes a table that is one file', () => {
    expect(planTable(syncRuns, getSnapshot(syncRuns, 5, null), [])).toEqual({
      table: syncRuns,
      stale: null,
      reused: [],
    })
  })
})

/** Notices by the month of their `created_at`, each with this many versions of its analysis. */
async function openMonths(months: readonly string[], versionsEach = 0): Promise<WarehouseCase> {
  const warehouse = await openWarehouseCase()
  await warehouse.store(
    months.map((month, index) => noticeEntry(index + 1, { created_at: `${month}-15T12:00:00Z` })),
  )
  await warehouse.db.run(
    `INSERT INTO analysis_versions (edital_id, observed_at) SELECT edital_id, to_timestamp(n)
     FROM editais, range(1, ${versionsEach + 1}) t(n)`,
  )
  return warehouse
}

type Writing = { rows?: number; reused?: readonly SnapshotFile[]; previous?: string; name?: string }

/** Writes a table into a snapshot of this name, as the company `acme`. */
async function write(
  { db, directory }: WarehouseCase,
  table: Table,
  stale: readonly string[] | null,
  { rows, reused = [], previous, name = 'snapshot' }: Writing = {},
) {
  const snapshot = join(directory, name)
  await mkdir(snapshot, { recursive: true })
  const counted = await db.row<{ rows: number }>(`SELECT count(*) AS rows FROM ${table.name}`)
  const target = { directory: snapshot, company: 'acme', access: ACCESS, rows: rows ?? counted.rows }
  const linked = reused.map(file => ({ directory: join(directory, previous ?? ''), file }))
  const files = await writeTable(db, { table, stale, reused: linked }, target)
  return { files, snapshot, read: (sql: string) => read(db, snapshot, table, sql) }
}

/** Queries the table's published files. */
async function read(db: Database, snapshot: string, table: Table, select: string) {
  const files = literal(join(snapshot, table.name, '*.parquet'))
  return await db.rows(`SELECT ${select} FROM read_parquet(${files}, filename = true) ORDER BY ALL`)
}

describe('the files of a table', () => {
  it('hold the rows of one month each, with the published columns in their order', async () => {
    const warehouse = await openMonths(['2026-10', '2026-11', '2026-10'])
    const { files, snapshot, read } = await write(warehouse, editais, ['2026-11', '2026-10'])
    expect(files).toMatchObject([
      { path: 'editais/2026-10.parquet', month: '2026-10', rows: 2 },
      { path: 'editais/2026-11.parquet', month: '2026-11', rows: 1 },
    ])
    expect(await read(`parse_filename(filename) AS file, company, edital_id`)).toEqual([
      { file: '2026-10.parquet', company: 'acme', edital_id: idOf(1) },
      { file: '2026-10.parquet', company: 'acme', edital_id: idOf(3) },
      { file: '2026-11.parquet', company: 'acme', edital_id: idOf(2) },
    ])
    const columns = await warehouse.db.rows<{ column_name: string }>(
      `DESCRIBE FROM read_parquet(${literal(join(snapshot, files[0]?.path ?? ''))})`,
    )
    expect(columns.map(column => column.column_name)).toEqual(
      listPublishedColumns(editais).map(({ name }) => name),
    )
  })

  it('are read-only, and their bytes are those of the manifest', async () => {
    const { files, snapshot } = await write(await openMonths(['2026-10']), editais, ['2026-10'])
    const path = join(snapshot, files[0]?.path ?? '')
    const bytes = await readFile(path)
    expect(files).toMatchObject([
      { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') },
    ])
    expect((await stat(path)).mode & 0o777).toBe(0o440)
    expect((await stat(join(snapshot, 'editais'))).mode & 0o777).toBe(0o750)
  })

  it('hold what belongs to a notice in the notice’s month', async () => {
    const { files, read } = await write(await openMonths(['2026-10', '2026-11'], 2), analysisVersions, [
      '2026-10',
      '2026-11',
    ])
    expect(files).toMatchObject([{ rows: 2 }, { rows: 2 }])
    expect(await read('DISTINCT parse_filename(filename) AS file, edital_id')).toEqual([
      { file: '2026-10.parquet', edital_id: idOf(1) },
      { file: '2026-11.parquet', edital_id: idOf(2) },
    ])
  })

  it('leave nothing else in their directory, however many months there are', async () => {
    const months = Array.from({ length: 62 }, (_, index) =>
      new Date(Date.UTC(2020, index, 1)).toISOString().slice(0, 7),
    )
    const { files, snapshot } = await write(await openMonths(months), editais, months)
    expect(files.map(({ month, rows }) => [month, rows])).toEqual(months.map(month => [month, 1]))
    expect((await readdir(join(snapshot, 'editais'))).sort()).toEqual(months.map(month => `${month}.parquet`))
  })

  it.each([
    ['alone', ['2026-09']],
    ['among others', ['2026-09', '2026-10', '2026-11']],
  ])('do not exist for a month without rows, %s', async (_, stale) => {
    const warehouse = await openMonths(['2026-10', '2026-11'])
    const reused = stale.length === 1 ? (await write(warehouse, editais, ['2026-10', '2026-11'])).files : []
    const { files } = await write(warehouse, editais, stale, { reused, previous: 'snapshot', name: 'next' })
    expect(files.map(({ month }) => month)).toEqual(['2026-10', '2026-11'])
  })

  it('of months that did not change are those of the previous snapshot', async () => {
    const warehouse = await openMonths(['2026-10', '2026-11'])
    const before = await write(warehouse, editais, ['2026-10', '2026-11'])
    const reused = before.files.filter(({ month }) => month === '2026-11')
    const after = await write(warehouse, editais, ['2026-10'], { reused, previous: 'snapshot', name: 'next' })
    expect(after.files[1]).toEqual(reused[0])
    const inodes = async (snapshot: string) =>
      await Promise.all(after.files.map(async ({ path }) => (await stat(join(snapshot, path))).ino))
    const [first, second] = [await inodes(before.snapshot), await inodes(after.snapshot)]
    expect([first[0] === second[0], first[1] === second[1]]).toEqual([false, true])
  })

  it('are one empty file with the columns if there are no rows yet', async () => {
    const { files, read } = await write(await openWarehouseCase(), editais, [])
    expect(files).toMatchObject([{ path: 'editais/empty.parquet', month: null, rows: 0 }])
    expect(await read('company, edital_id')).toEqual([])
  })

  it('are one file for a table without months', async () => {
    const warehouse = await openWarehouseCase()
    await warehouse.db.run(`INSERT INTO sync_runs (run_id) VALUES ('r1'), ('r2')`)
    const { files, read } = await write(warehouse, syncRuns, null)
    expect(files).toMatchObject([{ path: 'sync_runs/all.parquet', month: null, rows: 2 }])
    expect(await read('company, run_id')).toEqual([
      { company: 'acme', run_id: 'r1' },
      { company: 'acme', run_id: 'r2' },
    ])
  })

  it('must hold all rows of the table: a month that was not marked as stale is detected', async () => {
    const warehouse = await openMonths(['2026-10', '2026-11'])
    await expect(write(warehouse, editais, ['2026-10'])).rejects.toThrow(
      'editais: 2 rows in the warehouse, 1 in its files',
    )
  })
})
