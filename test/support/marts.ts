import type { Table } from '#schema/tables.ts'
import { createReport } from '#src/core/company/run_report.ts'
import { createRelations, type Marts as LoadedMarts, storeMarts } from '#src/core/lake/catalog.ts'
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
  sameLine,
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
  /** The stored marts that were computed since the last run. */
  const current = new Set<string>()
  /** The last analysis of each notice, as text. */
  const fetched = new Map<unknown, string>()
  let runs = 0

  async function run(at: Date, found: Found): Promise<void> {
    runs += 1
    current.clear()
    await apply(...linesOfRun({ run_id: `r${runs}`, at, fetched }, found))
  }

  async function table(sql: string, parameters?: { [name: string]: string }): Promise<QueryResult> {
    if (!withCatalog.has(db)) await db.run(`ATTACH ':memory:' AS ${CATALOG}`)
    await db.run(`USE ${CATALOG}`)
    try {
      await showWarehouse(db, { name, sql, current })
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

async function showWarehouse(
  db: Database,
  { name, sql, current }: { name: string; sql: string; current: Set<string> },
): Promise<void> {
  const marts = await loadMarts()
  const shown = withCatalog.has(db)
  const due = [...storedOf(marts)].filter(
    ([mart, users]) => !current.has(mart) && (!shown || users.test(sql)),
  )
  for (const [mart] of due) current.add(mart)
  if (shown)
    return await storeMarts(db, {
      ...marts,
      views: marts.views.filter(view => due.some(([mart]) => mart === view.name)),
    })
  const source = {
    company: COMPANY,
    snapshot: 's1',
    publishedAt: new Date().toISOString(),
    sourceTimezone: TIMEZONE,
    directory: '',
    files: new Map(),
  }
  const rowsSource = (table: Table) =>
    `(SELECT ${exportColumns(table, COMPANY)} FROM ${name}.main.${identifier(table.name)} t)`
  await db.transaction(() => createRelations(db, [source], marts, { rowsSource }))
  withCatalog.add(db)
}

let stored: ReadonlyMap<string, RegExp> | null = null

/** The marts whose rows are stored, each with the names of those that read it, also through others. One takes as long as ten queries. */
function storedOf({ views }: LoadedMarts): ReadonlyMap<string, RegExp> {
  stored ??= new Map(
    views
      .filter(({ storedFrom }) => storedFrom)
      .map(({ name }) => {
        const users = [name]
        // Each reads only marts above it.
        for (const view of views) if (anyOf(users).test(view.sql)) users.push(view.name)
        return [name, anyOf(users)]
      }),
  )
  return stored
}

function anyOf(names: readonly string[]): RegExp {
  return new RegExp(`\\b(?:${names.join('|')})\\b`)
}

/** The lines that a good run logs. */
function linesOfRun(
  { run_id, at, fetched }: { run_id: string; at: Date; fetched: Map<unknown, string> },
  { shown = [], gone = [] }: Found,
): TestLine[] {
  const of = { run_id, at: at.toISOString() }
  const report = { ...createReport(run_id, 'incremental', at), finished_at: of.at, scan_complete: true }
  return [
    { type: 'run_started', mode: 'incremental', analysis_statuses: [], ...of },
    ...shown.flatMap(entry => {
      const [id, text] = [entry.edital.id, JSON.stringify(entry.analysis)]
      const isSame = fetched.get(id) === text
      fetched.set(id, text)
      return [
        noticeLine(entry, { ...of, ...accepted(entry, 'notice') }),
        isSame ? sameLine(entry, of) : analysisLine(entry, { ...of, ...accepted(entry, 'analysis') }),
      ]
    }),
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
