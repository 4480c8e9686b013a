import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { editais, TABLES, type Table } from '#schema/tables.ts'
import { companyPaths, makeDirectories } from '#src/store/company.ts'
import { type Database, identifier, literal } from '#src/store/warehouse/database.ts'
import { exportColumns, flatten, flattenedColumns, month } from '#src/store/warehouse/sql.ts'
import { stageLines } from '#src/store/warehouse/staging.ts'
import { openWarehouse } from '#src/store/warehouse/warehouse.ts'
import { type Spent, startWatch } from './stopwatch.ts'

/*
 * The floor of loading: DuckDB alone creates the rows and the Parquet files of a full sync from plain
 * NDJSON, with the sync's settings, typed reading and flattening, but without its bookkeeping.
 * Prints one JSON object (LoadFloor).
 */

export type LoadFloor = Spent & {
  readonly threads: number
  /** Wall seconds. */
  readonly phases: { readonly read: number; insert: number; checkpoint: number; parquet: number }
  readonly rows: Readonly<Record<string, number>>
  readonly parquetBytes: number
  readonly peakRssBytes: number
}

/** As `src/store/lake/export.ts` writes them. */
const PARQUET = 'FORMAT parquet, PARQUET_VERSION v1, COMPRESSION zstd'

const [segments = '', directory = '', company = '', sourceTimezone = '', threads = ''] = process.argv.slice(2)
const monthly = TABLES.filter(table => table.files === 'by_month')
const phases = { read: 0, insert: 0, checkpoint: 0, parquet: 0 }

async function timed(phase: keyof typeof phases, work: () => Promise<void>): Promise<void> {
  const read = startWatch()
  await work()
  phases[phase] += read().wallSeconds
}

async function load(db: Database): Promise<void> {
  for (const [index, name] of (await readdir(segments)).sort().entries()) {
    await timed('read', () => stageLines(db, { number: index + 1, path: join(segments, name) }))
    await timed('insert', () =>
      db.transaction(async () => {
        for (const table of monthly) await db.run(insert(table))
      }),
    )
  }
  await timed('checkpoint', () => db.run('CHECKPOINT'))
}

function insert(table: Table): string {
  const lines = `(FROM lines WHERE type = ${literal(table.document)})`
  if (table !== editais) {
    return `INSERT INTO ${identifier(table.name)} (${flattenedColumns(table)}) ${flatten(table, lines, sourceTimezone)}`
  }
  const kept = [`"at" AS first_seen_at`, `"at" AS changed_at`, `'current' AS analysis_state`]
  return `INSERT INTO editais (${flattenedColumns(table)}, first_seen_at, changed_at, analysis_state)
    ${flatten(table, lines, sourceTimezone, kept)}`
}

async function exportTable(db: Database, table: Table): Promise<void> {
  const target = literal(join(directory, 'parquet', table.name))
  const list = exportColumns(table, company)
  if (table.files === 'one') {
    await db.run(`COPY (SELECT ${list} FROM ${identifier(table.name)} t) TO ${target} (${PARQUET})`)
    return
  }
  const isParent = table === editais
  await db.run(
    `COPY (SELECT ${list}, ${month(isParent ? 't.created_at' : 'e.created_at')} AS _month
       FROM ${identifier(table.name)} t ${isParent ? '' : 'JOIN editais e USING (edital_id)'}
     ) TO ${target} (${PARQUET}, PARTITION_BY (_month), FILENAME_PATTERN 'part')`,
  )
}

async function countRows(db: Database): Promise<Record<string, number>> {
  const rows: Record<string, number> = {}
  for (const { name } of monthly) {
    rows[name] = (await db.row<{ rows: number }>(`SELECT count(*) AS rows FROM ${identifier(name)}`)).rows
  }
  return rows
}

async function bytesUnder(path: string): Promise<number> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  const sizes = entries
    .filter(entry => entry.isFile())
    .map(async entry => (await stat(join(entry.parentPath, entry.name))).size)
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
}

const paths = companyPaths(directory, company)
await makeDirectories(paths)
await mkdir(join(directory, 'parquet'))
const signal = new AbortController().signal
const { db } = await openWarehouse({ paths, sourceTimezone, newId: () => 'floor', signal })
if (threads === 'all') await db.run(`SET threads = ${availableParallelism()}`)
const used = await db.row<{ threads: number }>(`SELECT current_setting('threads') AS threads`)

const read = startWatch()
await load(db)
await timed('parquet', async () => {
  for (const table of TABLES) await exportTable(db, table)
})
const spent = read()
const floor: LoadFloor = {
  ...spent,
  threads: used.threads,
  phases,
  rows: await countRows(db),
  parquetBytes: await bytesUnder(join(directory, 'parquet')),
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
}
db.close()
await rm(directory, { recursive: true })
process.stdout.write(JSON.stringify(floor))
