import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Answer, Api } from '#src/core/api/client.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { RequestError } from '#src/lib/errors.ts'
import { sync } from '#src/sync.ts'
import { contextHere } from './here.ts'
import { validDocuments } from './judged.ts'
import { type Mutation, mutated, mutation } from './mutations.ts'
import type { Document } from './oracle/json.ts'
import { type Judgement, judge } from './oracle/judge.ts'
import {
  analysisRow,
  CHILD_TABLES,
  childRows,
  difference,
  type ExpectedRow,
  editalRow,
} from './oracle/rows.ts'

/** The answers of a possibly hostile API for one notice: its element of the list, and its analysis. */
export type Said = {
  readonly notice: Buffer
  readonly analysis: Buffer
  /** The id used in requests, if it does not come from the list. */
  readonly key?: string
  /** Set if the client does not get the whole analysis. */
  readonly seen?: 'nothing' | 'too much'
}

/** Mutations of a notice and its analysis. The list is one JSON text, so its elements are not mutated as bytes. */
export const mutatedPair = fc.tuple(mutation({ bytes: false }), mutation({ bytes: true }))

/** The answers for the notices n0, n1, … that such pairs give. */
export function saidBy(pairs: readonly (readonly [Mutation, Mutation])[]): Said[] {
  const bases = validDocuments()
  return pairs.map(([ofNotice, ofAnalysis], position) => ({
    notice: mutated(ofNotice, bases.notice, `n${position}`),
    analysis: mutated(ofAnalysis, bases.analysis, `n${position}`),
  }))
}

export type Judged = Said & {
  /** Identifies the record: its id, or its text if the id is unusable. */
  readonly key: string
  readonly asNotice: Judgement
  readonly asAnalysis: Judgement
}

export type Loaded = { readonly documents: number; readonly quarantined: number; readonly rows: number }

/**
 * Runs the whole sync, except HTTP, on these answers into an empty directory, and compares every row of every data
 * table in its snapshot with the rows that the oracle derives: no other value, no other row, none missing.
 * @throws Error with the difference and the documents.
 */
export async function loadAndCompare(said: readonly Said[], dataDir: string): Promise<Loaded> {
  const judged = distinct(said)
  const environment = {
    API_BASE_URL: 'http://127.0.0.1:9',
    API_KEY: 'unused',
    DATA_DIR: dataDir,
    COMPANY: 'acme',
  }
  const context = contextHere(environment)
  const { report } = await sync(NEXT, { ...context, api: apiThatSays(judged) })
  compareReport(report, judged)
  const rows = compareTables(await readSnapshot(dataDir, readTables), judged)
  return { documents: 2 * judged.length, quarantined: report.quarantined, rows }
}

/** Reads the latest snapshot of the company `acme`. */
export async function readSnapshot<T>(dataDir: string, read: (db: Database) => Promise<T>): Promise<T> {
  const latest = await realpath(join(dataDir, 'acme/lake/latest'))
  const db = await Database.open(join(latest, 'catalog.duckdb'), { readOnly: true, threads: 1 })
  try {
    return await read(db)
  } finally {
    db.close()
  }
}

/** The oracle's judgement of each. A list has each notice once, so notices that became equal are left out. */
export function distinct(said: readonly Said[]): Judged[] {
  const byKey = new Map<string, Judged>()
  for (const each of said) {
    const asNotice = judge(each.notice, 'notice', each.key ?? null)
    const key = asNotice.usable
      ? String(asNotice.document.id)
      : (each.key ?? idIn(each.notice) ?? String(each.notice))
    if (byKey.has(key)) continue
    const asAnalysis = each.seen === 'too much' ? TOO_LARGE : judge(each.analysis, 'analysis', key)
    byKey.set(key, { ...each, key, asNotice, asAnalysis })
  }
  return [...byKey.values()]
}

const TOO_LARGE: Judgement = { usable: false, faults: new Set(['$']) }

function idIn(notice: Buffer): string | null {
  const id = (JSON.parse(String(notice)) as { id?: unknown } | null)?.id
  return typeof id === 'string' && /^[\w.~:@+=-]{1,200}$/.test(id) && !/^\.{1,2}$/.test(id) ? id : null
}

function apiThatSays(judged: readonly Judged[]): Api {
  const byKey = new Map(judged.map(each => [each.key, each]))
  const absent: Answer = { kind: 'absent' }
  const list: Api['list'] = async ({ limit, offset }) => {
    const texts = judged.slice(offset, offset + limit).map(each => String(each.notice))
    const envelope = `"count":${texts.length},"total":${judged.length},"limit":${limit},"offset":${offset}`
    return Buffer.from(`{"editais":[${texts.join(',')}],${envelope}}`)
  }
  return {
    onlyAfter: () => {},
    stats: { requests: 0, bytes: 0 },
    concurrency: 4,
    list,
    listBriefly: list,
    notice: async () => absent,
    async analysis(id) {
      const each = byKey.get(id)
      if (!each?.asNotice.usable) throw new RequestError(`unexpected request for ${id}`)
      return { kind: 'body', bytes: Buffer.from(each.analysis) }
    },
    estimateSeconds: () => 0,
    close: async () => {},
  }
}

/** Checks that every listed notice has the expected outcome. */
export function compareReport(report: RunReport, judged: readonly Judged[]): void {
  const usable = judged.filter(({ asNotice }) => asNotice.usable)
  const failed = usable.filter(({ seen }) => seen === 'nothing').length
  const loaded = usable.filter(each => stateOf(each) === 'current').length
  const listed = judged.length
  const expected = {
    listed,
    loaded,
    failed,
    quarantined: listed - loaded - failed,
    gone: 0,
    deferred: 0,
    unchanged: 0,
    not_attempted: 0,
  }
  for (const [name, count] of Object.entries(expected)) {
    const actual = report[name as keyof RunReport]
    if (actual !== count) {
      throw new Error(`the report's ${name} is ${actual}, not ${count}: ${JSON.stringify(report)}`)
    }
  }
}

export type Row = Readonly<Record<string, unknown>> & { readonly edital_id: string | null }

/** The rows of every data table of a snapshot, by notice; child rows in order. */
export type Tables = ReadonlyMap<string, ReadonlyMap<string | null, readonly Row[]>>

export async function readTables(db: Database): Promise<Tables> {
  const tables = new Map<string, Map<string | null, Row[]>>()
  for (const [table, order] of [
    ...['editais', 'analyses', 'quarantine'].map(table => [table, 'edital_id'] as const),
    ...CHILD_TABLES.map(table => [table, 'ordinal'] as const),
  ]) {
    tables.set(
      table,
      Map.groupBy(await readTable(db, table, order), row => row.edital_id),
    )
  }
  return tables
}

/** Compares every row. @returns the number of rows. */
export function compareTables(tables: Tables, judged: readonly Judged[]): number {
  let rows = 0
  const compare = (table: string, expectedOf: (each: Judged) => readonly ExpectedRow[]) => {
    const actual = new Map(tables.get(table))
    for (const each of judged) {
      const expected = expectedOf(each)
      const found = actual.get(each.key) ?? []
      actual.delete(each.key)
      rows += found.length
      if (found.length !== expected.length) {
        throw failure(each, `${table} has ${found.length} rows, not ${expected.length}`)
      }
      for (const [index, row] of expected.entries()) {
        const differs = difference(row, found[index] as Row)
        if (differs) throw failure(each, `${table}, row ${index}: ${differs}`)
      }
    }
    if (actual.size > 0)
      throw new Error(`${table} has rows of ${[...actual.keys()]}, which the API never sent`)
  }
  compare('editais', each => (each.asNotice.usable ? [noticeRow(each, each.asNotice.document)] : []))
  compare('analyses', each => documentOf(each).map(document => analysisRowOf(each, document)))
  for (const table of CHILD_TABLES) {
    compare(table, each => documentOf(each).flatMap(document => childRows(document, table)))
  }
  compareQuarantine([...(tables.get('quarantine')?.values() ?? [])].flat(), judged)
  return rows
}

const SHOWN_CHARACTERS = 5000

function failure({ notice, analysis }: Said, message: string): Error {
  const shown = [notice, analysis].map(bytes => bytes.toString('utf8', 0, SHOWN_CHARACTERS))
  return new Error([message, 'notice:', shown[0], 'analysis:', shown[1]].join('\n'))
}

function stateOf({ asAnalysis, seen }: Judged): 'current' | 'quarantined' | 'pending' {
  if (seen === 'nothing') return 'pending'
  return asAnalysis.usable ? 'current' : 'quarantined'
}

/** The analysis, if it must be loaded. */
function documentOf(each: Judged): Document[] {
  const { asNotice, asAnalysis } = each
  return asNotice.usable && asAnalysis.usable && stateOf(each) === 'current' ? [asAnalysis.document] : []
}

function noticeRow(each: Judged, document: Document): ExpectedRow {
  return { ...editalRow(document), analysis_state: stateOf(each), deleted_at: null }
}

function analysisRowOf({ asNotice }: Judged, document: Document): ExpectedRow {
  const listed = asNotice.usable ? editalRow(asNotice.document) : {}
  return { ...analysisRow(document), source_updated_at: listed.updated_at ?? null }
}

/** Reads times as microseconds, which a Date cannot hold. */
async function readTable(db: Database, table: string, order: string): Promise<Row[]> {
  const columns = await db.rows<{ column_name: string; column_type: string }>(`DESCRIBE FROM ${table}`)
  const select = columns.map(({ column_name: name, column_type: type }) => {
    // DuckDB's client removes a byte order mark at the start of a text, so a dot is put before every text.
    if (type === 'VARCHAR') return `'.' || ${name} AS ${name}`
    return type.startsWith('TIMESTAMP') ? `epoch_us(${name}) AS ${name}` : name
  })
  const texts = columns.filter(({ column_type }) => column_type === 'VARCHAR').map(each => each.column_name)
  const rows = await db.rows(`SELECT ${select.join(', ')} FROM ${table} t ORDER BY t.${order}`)
  for (const row of rows) for (const name of texts) row[name] = (row[name] as string | null)?.slice(1) ?? null
  return rows as Row[]
}

function compareQuarantine(rows: readonly Row[], judged: readonly Judged[]): void {
  const byId = new Map(rows.map(row => [`${row.kind} ${row.edital_id}`, row]))
  let expected = 0
  for (const each of judged) {
    const { key, asNotice, asAnalysis, notice } = each
    const [kind, judgement] = asNotice.usable ? ['analysis', asAnalysis] : ['notice', asNotice]
    if (judgement.usable || (asNotice.usable && each.seen === 'nothing')) continue
    expected += 1
    // Records without a usable id cannot be distinguished.
    if (!asNotice.usable && key === String(notice)) continue
    const path = String(byId.get(`${kind} ${key}`)?.path)
    if (!judgement.faults.has(path)) throw failure(each, `the ${kind} is quarantined for ${path}`)
  }
  if (rows.length !== expected) throw new Error(`${rows.length} records are quarantined, not ${expected}`)
}
