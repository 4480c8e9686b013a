import type { Table } from '#schema/tables.ts'
import { createReport } from '#src/core/company/run_report.ts'
import { createRelations, storeMarts } from '#src/core/lake/catalog.ts'
import { type Verdict, validateAnalysis, validateNotice } from '#src/core/pipeline/validate.ts'
import type { Database, QueryResult, Row } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { exportColumns } from '#src/core/warehouse/sql.ts'
import { loadMarts } from '#src/marts/open.ts'
import type { Entry } from '#src/sandbox/world.ts'
import {
  analysisLine,
  goneLine,
  noticeLine,
  openWarehouseCase,
  type TestLine,
  TIMEZONE,
} from './warehouse.ts'

/** What a run found: notices that are new or changed, with their analyses, and notices that are gone. */
export type Found = { readonly shown?: readonly Entry[]; readonly gone?: readonly Entry[] }

/** The marts over a warehouse in memory, without an API, runs and a lake. Removed after the test. */
export type Marts = {
  readonly db: Database
  /** Applies the lines that a good run logs. */
  run(at: Date, found: Found): Promise<void>
  /** Rows of tables and marts, as a catalog shows them. */
  query<T extends Row>(sql: string): Promise<T[]>
  /** The same with the names of the columns. */
  table(sql: string, parameters?: { [name: string]: string }): Promise<QueryResult>
}

const COMPANY = 'acme'
/** The database with the relations of a catalog; they are views of the warehouse beside it. */
const CATALOG = 'catalog'
/** Those that have it: creating the relations takes a hundred times longer than most queries. */
const withCatalog = new WeakSet<Database>()

/** @param entries what a first run found just now; without any, there was no run yet. */
export async function openMarts(entries: readonly Entry[] = []): Promise<Marts> {
  const { db, apply } = await openWarehouseCase()
  const { name } = await db.row<{ name: string }>('SELECT current_database() AS name')
  let runs = 0
  let isCurrent = false

  async function run(at: Date, found: Found): Promise<void> {
    runs += 1
    isCurrent = false
    await apply(...linesOfRun(`r${runs}`, at, found))
  }

  async function table(sql: string, parameters?: { [name: string]: string }): Promise<QueryResult> {
    if (!withCatalog.has(db)) await db.run(`ATTACH ':memory:' AS ${CATALOG}`)
    await db.run(`USE ${CATALOG}`)
    try {
      if (!isCurrent) await showWarehouse(db, name)
      isCurrent = true
      return await db.table(sql, parameters)
    } finally {
      await db.run(`USE ${name}`)
    }
  }

  if (entries.length > 0) await run(new Date(), { shown: entries })
  return {
    db,
    run,
    table,
    query: async <T extends Row>(sql: string) => (await table(sql)).rows as T[],
  }
}

async function showWarehouse(db: Database, warehouse: string): Promise<void> {
  const marts = await loadMarts()
  if (withCatalog.has(db)) return await storeMarts(db, marts)
  const source = {
    company: COMPANY,
    snapshot: 's1',
    publishedAt: new Date().toISOString(),
    sourceTimezone: TIMEZONE,
    directory: '',
    files: new Map(),
  }
  const rowsSource = (table: Table) =>
    `(SELECT ${exportColumns(table, COMPANY)} FROM ${warehouse}.main.${identifier(table.name)} t)`
  await db.transaction(() => createRelations(db, [source], marts, { rowsSource }))
  withCatalog.add(db)
}

/** The lines that a good run logs. */
function linesOfRun(run_id: string, at: Date, { shown = [], gone = [] }: Found): TestLine[] {
  const of = { run_id, at: at.toISOString() }
  const report = { ...createReport(run_id, 'incremental', at), finished_at: of.at, scan_complete: true }
  return [
    { type: 'run_started', mode: 'incremental', analysis_statuses: [], ...of },
    ...shown.flatMap(entry => [
      noticeLine(entry, { ...of, ...accepted(entry, 'notice') }),
      analysisLine(entry, { ...of, ...accepted(entry, 'analysis') }),
    ]),
    ...gone.map(entry => goneLine(entry, of)),
    { type: 'run_finished', report, ...of },
  ]
}

/** The document in the form in which a run logs it. */
function accepted({ edital, analysis }: Entry, kind: 'notice' | 'analysis'): object {
  const verdict: Verdict =
    kind === 'notice'
      ? validateNotice(Buffer.from(JSON.stringify(edital)), edital.id)
      : validateAnalysis(Buffer.from(JSON.stringify(analysis)), edital.id)
  if (!verdict.ok) throw new Error(`${kind} ${edital.id}: ${verdict.reason} at ${verdict.path}`)
  const { document, drift } = verdict
  return { [kind]: JSON.parse(document), ...(drift.length > 0 && { drift }) }
}
