import { join } from 'node:path'
import { listPublishedColumns, TABLES, type Table } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { alertRows, analysisRow, editalRow, itemRows, type Row, requirementRows } from '#test/support/rows.ts'
import { checkLatest } from './snapshots.ts'
import { checkPublished, OF_THE_RUN } from './tables.ts'

/** A company's published tables, in a form that can be compared with documents. */
export type Stored = {
  readonly notices: ReadonlyMap<string, StoredNotice>
  /** Each analysis with its child rows, as one text, by notice. */
  readonly analyses: ReadonlyMap<string, string>
  /** The notice's `updated_at` for which each analysis was fetched, in microseconds. */
  readonly sources: ReadonlyMap<string, number>
  /** All rows of the append-only tables. */
  readonly history: ReadonlySet<string>
  /** Open quarantine records, as `kind` and notice. */
  readonly quarantined: ReadonlySet<string>
}

export type StoredNotice = {
  readonly text: string
  readonly deleted: boolean
  readonly state: string
  readonly updatedAt: number
  readonly status: string
}

const PARTS = ['requirements', 'items', 'alerts'] as const

/**
 * Reads the latest snapshot.
 * @throws Violation unless all its tables match one state of the warehouse (I5).
 */
export async function readStored(paths: CompanyPaths): Promise<Stored> {
  const manifest = checkLatest(paths, true) as Manifest
  const db = await Database.open(join(manifest.directory, 'catalog.duckdb'), { readOnly: true, threads: 1 })
  try {
    await checkPublished(db, paths, manifest)
    const rows = new Map<string, Row[]>()
    for (const table of TABLES.filter(({ document }) => document !== 'kept'))
      rows.set(table.name, await rowsOf(db, table))
    const versions = ['edital_versions', 'analysis_versions'].flatMap(name =>
      (rows.get(name) ?? []).map(row => `${name} ${JSON.stringify(row)}`),
    )
    const byNotice = PARTS.map(part => Map.groupBy(rows.get(part) ?? [], row => String(row.edital_id)))
    return {
      notices: new Map(rows.get('editais')?.map(row => [String(row.edital_id), storedNotice(row)])),
      analyses: new Map(
        rows.get('analyses')?.map(row => {
          const id = String(row.edital_id)
          return [id, textOf([row, ...byNotice.map(rows => inOrder(rows.get(id) ?? []))])]
        }),
      ),
      sources: new Map(
        rows.get('analyses')?.map(row => [String(row.edital_id), Number(row.source_updated_at)]),
      ),
      history: new Set(versions),
      quarantined: await readQuarantined(db),
    }
  } finally {
    db.close()
  }
}

async function readQuarantined(db: Database): Promise<Set<string>> {
  const open = await db.rows<{ what: string }>(
    `SELECT kind || ' ' || edital_id AS what FROM quarantine WHERE resolved_at IS NULL AND edital_id IS NOT NULL`,
  )
  return new Set(open.map(({ what }) => what))
}

async function rowsOf(db: Database, table: Table): Promise<Row[]> {
  const columns = listPublishedColumns(table)
    .filter(({ name }) => name !== 'company')
    .map(({ name, type }) => (type === 'TIMESTAMPTZ' ? `epoch_us("${name}") AS "${name}"` : `"${name}"`))
  return await db.rows(`SELECT ${columns.join(', ')} FROM "${table.name}"`)
}

function storedNotice(row: Row): StoredNotice {
  const { deleted_at, analysis_state, ...document } = row
  return {
    text: textOf(document),
    deleted: deleted_at !== null,
    state: String(analysis_state),
    updatedAt: Number(row.updated_at),
    status: String(row.status),
  }
}

function inOrder(rows: Row[]): Row[] {
  return rows.toSorted((a, b) => Number(a.ordinal) - Number(b.ordinal))
}

const texts = new WeakMap<object, string>()

/** Cached by document, because documents are sent many times. */
function remembered(document: object, make: () => string): string {
  const text = texts.get(document) ?? make()
  texts.set(document, text)
  return text
}

export function noticeText(entry: Entry): string {
  return remembered(entry.edital, () => {
    const { deleted_at, analysis_state, ...document } = editalRow(entry)
    return textOf(document)
  })
}

/** Whether two texts of notices say the same: a time in another spelling is no change, and the row keeps the first. */
export function saysTheSame(one: string, other: string): boolean {
  const [first, second] = [one, other].map(text => textOf({ ...JSON.parse(text), times_as_sent: null }))
  return first === second
}

export function analysisText(entry: Entry): string {
  return remembered(entry.analysis as object, () =>
    textOf([analysisRow(entry), requirementRows(entry), itemRows(entry), alertRows(entry)]),
  )
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part === 'bigint') return Number(part)
    if (part === null || typeof part !== 'object' || Array.isArray(part)) return part
    const names = Object.keys(part).filter(name => !OF_THE_RUN.includes(name))
    return Object.fromEntries(names.sort().map(name => [name, (part as Row)[name]]))
  })
}
