import { z } from 'zod'
import type { FormatName } from '#config/lake.ts'
import { composeComment } from '#schema/columns.ts'
import { listPublishedColumns, TABLES } from '#schema/tables.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import {
  COUNT,
  ForeignObject,
  type JsonKind,
  type ObjectStore,
  PLAIN_NAME,
  RemoteError,
  readJson,
  SNAPSHOT_NAME,
  tagIfContent,
} from '#src/lib/objects/objects.ts'
import { MARTS } from '#src/marts/marts.ts'

/** Tables and marts as other engines see them, and the interface of the open table formats. */

/** The types of tables and marts; HUGEINT and UBIGINT are refused, because Parquet cannot store them as such. */
const REMOTE_TYPES = [
  'VARCHAR',
  'BIGINT',
  'INTEGER',
  'DOUBLE',
  'BOOLEAN',
  'TIMESTAMPTZ',
  'DATE',
  'TIMESTAMP',
] as const
export type RemoteType = (typeof REMOTE_TYPES)[number]

export type RemoteColumn = { readonly name: string; readonly type: RemoteType; readonly comment: string }
export type RemoteTable = {
  readonly name: string
  readonly comment: string
  readonly columns: readonly RemoteColumn[]
}

/** Every table, then every mart. */
export const REMOTE_TABLES: readonly RemoteTable[] = [
  ...TABLES.map(table => ({ ...table, columns: listPublishedColumns(table) })),
  ...MARTS,
].map(table => ({
  name: table.name,
  comment: composeComment(table),
  columns: table.columns.map(column => ({
    name: column.name,
    type: convertType(column.type, `${table.name}.${column.name}`),
    comment: composeComment(column),
  })),
}))

function convertType(type: string, column: string): RemoteType {
  const known = REMOTE_TYPES.find(one => one === type)
  if (known === undefined) throw new Error(`${column}: ${type} is not a type of a remote table`)
  return known
}

/** How tables are kept: Iceberg tables by their own files, or by a catalog. */
export type TableKeeper = FormatName | 'catalog'

/** The path of a data file below its table: its month, and the hash of its content. */
export const DATA_PATH = /^data\/(-?\d{1,6}-\d{2}|all)-[0-9a-f]{64}\.parquet$/

/** A data file of a table: `path` relative to the table. */
export type RemoteFile = { readonly path: string; readonly rows: number; readonly bytes: number }

export type Commit = {
  readonly table: RemoteTable
  /** All files that the table should have. */
  readonly files: readonly RemoteFile[]
  /** The lake's snapshot, and its time, which is the same in all tables and later than that of the previous one. */
  readonly snapshot: string
  readonly at: Date
  readonly readStatistics: (file: RemoteFile) => Promise<readonly ColumnStatistics[]>
  /** Writes a Parquet file of these columns; `rows` are JSON objects. */
  readonly makeParquet: (
    columns: Readonly<Record<string, string>>,
    rows: readonly object[],
  ) => Promise<Buffer>
}

/** A table as it is in the object store, in one format. */
export type OpenTable = {
  /** Null before the first commit. */
  readonly version: number | null
  /** Paths of the files that it has now. */
  readonly files: ReadonlySet<string>
  /**
   * Readers may see it only after `finish`.
   * @returns the version that has exactly the wanted files; the current one if it has them.
   * @throws RemoteError if another program was faster.
   */
  commit(wanted: Commit): Promise<number>
  /** Reads the table as any reader does, from its metadata alone. */
  read(parquet: ReadParquet): Promise<readonly RemoteFile[]>
  /** Forgets versions that were superseded longer ago, so that their objects can be removed. */
  expire(older: Expiry): Promise<Expired>
}

/** Reads columns of a Parquet file from its bytes. */
export type ReadParquet = (bytes: Buffer, sql: string) => Promise<readonly object[]>

/** `latest` is the snapshot that `latest.json` names. */
export type Expiry = { readonly keepMs: number; readonly now: Date; readonly latest: string | null }
export type Expired = {
  readonly version: number | null
  readonly removed: number
  readonly kept: number
  /** Whether the table still names the object with this key, or it is not ours. */
  readonly isNamed: (key: string) => boolean
  /** Keys of objects that only forgotten versions named: no publish is about to name them. */
  readonly superseded: ReadonlySet<string>
}

/** The tables of one company, in one format. */
export type TableFormat = {
  /**
   * @param known the version that the last complete publish left; a newer one may be there. Null if it is not known.
   * @param create a table that a catalog creates if it does not have it; without this, a missing table is empty.
   * @throws RemoteError if another program committed to the table, or removed parts of it.
   */
  open(table: string, known: number | null, create?: RemoteTable): Promise<OpenTable>
  /** Returns the last change of a table that was opened, by the clock of the catalog that keeps it, in ms; 0 if we keep it. */
  lastChange(): number
  /**
   * Makes the commits visible.
   * @throws RemoteError if another program was faster, or it is not certain that all of it is visible.
   */
  finish(): Promise<void>
  close(): void
}

export type Formats = ReadonlyMap<TableKeeper, TableFormat>

/**
 * The statistics of a column in a Parquet file's footer. Numbers, days since 1970 and microseconds since 1970 are bigint or
 * number; null if the footer does not have it.
 */
export type ColumnStatistics = {
  readonly name: string
  readonly values: number
  readonly nulls: number | null
  readonly bytes: number
  readonly min: Bound | null
  readonly max: Bound | null
}
export type Bound = string | number | bigint | boolean

type Chunk = {
  readonly name: string
  readonly num_values: number
  readonly nulls: number | null
  readonly bytes: number
  readonly low: string | null
  readonly high: string | null
}

/** Statistics of a file's columns, from its footer alone. */
export async function readStatistics(
  db: Database,
  path: string,
  columns: readonly RemoteColumn[],
): Promise<ColumnStatistics[]> {
  const chunks = await db.rows<Chunk>(
    `SELECT path_in_schema AS name, num_values, stats_null_count AS nulls, total_compressed_size AS bytes,
       stats_min_value AS low, stats_max_value AS high
     FROM parquet_metadata(${literal(path)}) ORDER BY row_group_id`,
  )
  const byName = Map.groupBy(chunks, ({ name }) => name)
  return columns.map(({ name, type }) => summed(name, type, byName.get(name) ?? []))
}

/** Returns the statistics of all row groups. A bound is known only if every row group with a value has one. */
function summed(name: string, type: RemoteType, chunks: readonly Chunk[]): ColumnStatistics {
  const withValues = chunks.filter(({ num_values, nulls }) => nulls === null || nulls < num_values)
  const bound = (side: 'low' | 'high') => {
    const bounds = withValues.map(chunk => parsed(chunk[side], type))
    if (bounds.length === 0 || bounds.includes(null)) return null
    const sign = side === 'low' ? 1 : -1
    return (bounds as Bound[]).reduce((a, b) => (sign * compare(a, b) <= 0 ? a : b))
  }
  const nulls = chunks.map(chunk => chunk.nulls)
  return {
    name,
    values: chunks.reduce((sum, chunk) => sum + chunk.num_values, 0),
    nulls: nulls.includes(null) ? null : nulls.reduce((sum: number, n) => sum + (n ?? 0), 0),
    bytes: chunks.reduce((sum, chunk) => sum + chunk.bytes, 0),
    min: bound('low'),
    max: bound('high'),
  }
}

function compare(a: Bound, b: Bound): number {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : a > b ? 1 : 0
}

/** Returns the bound that DuckDB wrote as text. */
function parsed(text: string | null, type: RemoteType): Bound | null {
  if (text === null) return null
  switch (type) {
    case 'VARCHAR':
      return text
    case 'BOOLEAN':
      return text === 'true'
    case 'INTEGER':
    case 'BIGINT':
      return BigInt(text)
    case 'DOUBLE':
      return Number.isNaN(Number(text)) ? null : Number(text)
    case 'DATE':
      return instant(text)?.days ?? null
    case 'TIMESTAMP':
    case 'TIMESTAMPTZ':
      return instant(text)?.micros ?? null
  }
}

const INSTANT = /^(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:\+00)?)?$/

/** Returns null for a year that does not have four digits, or is BC. */
function instant(text: string): { days: number; micros: bigint } | null {
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = ''] = INSTANT.exec(text) ?? []
  if (year === undefined) return null
  const ms = new Date(0).setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second)
  return {
    days: ms / 86_400_000,
    micros: (BigInt(ms) + BigInt(seconds) * 1000n) * 1000n + BigInt(fraction.padEnd(6, '0')),
  }
}

const LAST_CODE_POINT = 0x10ffff

/**
 * Returns the beginning of a text, as a bound; an upper bound has its last character raised, so that it is above the text. Null
 * if the text has no upper bound of that length.
 */
export function boundText(text: string, side: 'min' | 'max', characters: number): string | null {
  const points = Array.from(text, character => character.codePointAt(0) as number)
  if (points.length <= characters) return text
  const kept = points.slice(0, characters)
  if (side === 'min') return String.fromCodePoint(...kept)
  while (kept.length > 0) {
    const last = raised(kept.pop() as number)
    if (last !== null) return String.fromCodePoint(...kept, last)
  }
  return null
}

/** Returns the next code point that UTF-8 can hold: surrogates are not code points of UTF-8. */
function raised(point: number): number | null {
  if (point === LAST_CODE_POINT) return null
  return point === 0xd7ff ? 0xe000 : point + 1
}

/** `lake/latest.json` of a company in the object store: where readers of several tables begin. */
export type Latest = {
  readonly format: 1
  readonly company: string
  /** The last snapshot of the local lake that all tables have; null before the first. */
  readonly snapshot: string | null
  readonly data_version: number
  /** The name of the raw log that `data_version` counts in. Version 0.2.0 did not write it. */
  readonly log?: string | null | undefined
  /** The last segment of the log whose runs it shows. Version 0.2.0 did not write it. */
  readonly applied_segment?: number | undefined
  /** Equal for snapshots of several hosts with the same content. Version 0.2.0 did not write it. */
  readonly content?: string | undefined
  /** The time of that snapshot in all tables. */
  readonly published_at: string | null
  /** A publish that has begun. The next one finishes it, because some tables may have its snapshot already. */
  readonly pending: { readonly snapshot: string; readonly at: string } | null
} & {
  /** The version of each table, by the formats that are published; in a catalog, the id of its snapshot. */
  readonly [format in TableKeeper]?: Readonly<Record<string, number>>
}

/** With the tag of the object that it was read from. */
export type Versioned = { readonly latest: Latest; readonly tag: string }

/** Dates far ahead would reach the end of time: each publish is later than the one before it. */
const TIME = z.string().regex(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/)
const SHA256 = /^[0-9a-f]{64}$/
const RUN_ID = /^[\w.:-]{1,200}$/
const VERSIONS = z.record(z.string().regex(PLAIN_NAME), COUNT).optional()
const LATEST: JsonKind<Latest> = {
  name: 'description of what was published',
  mostBytes: 1024 * 1024,
  shape: z.object({
    format: z.literal(1),
    company: z.string(),
    snapshot: SNAPSHOT_NAME.nullable(),
    data_version: COUNT,
    log: z.string().regex(RUN_ID).nullable().optional(),
    applied_segment: COUNT.optional(),
    content: z.string().regex(SHA256).optional(),
    published_at: TIME.nullable(),
    pending: z.object({ snapshot: SNAPSHOT_NAME, at: TIME }).nullable(),
    iceberg: VERSIONS,
    catalog: VERSIONS,
    delta: VERSIONS,
  }) as z.ZodType<Latest>,
}

export function nothingPublished(company: string): Latest {
  return { format: 1, company, snapshot: null, data_version: 0, published_at: null, pending: null }
}

/** Returns where a table's objects are. */
export function tableKey(company: string, table: string): string {
  return `${company}/lake/${table}`
}

/** Returns all tables that were published in these formats. */
export function listTableNames(
  latest: Latest,
  formats: ReadonlyMap<TableKeeper, unknown>,
): ReadonlySet<string> {
  return new Set([...formats.keys()].flatMap(format => Object.keys(latest[format] ?? {})))
}

function latestKey(company: string): string {
  return `${company}/lake/latest.json`
}

/**
 * Returns null if nothing was published yet.
 * @throws ForeignObject if it is not what this program wrote for this company.
 */
export async function readRemoteLatest(store: ObjectStore, company: string): Promise<Versioned | null> {
  const key = latestKey(company)
  const read = await readJson(store, key, LATEST)
  if (read === null) return null
  const { value: latest, found } = read
  if (latest.company !== company)
    throw new ForeignObject(`${store.root}/${key}`, 'is that of another company')
  return { latest, tag: found.tag }
}

/**
 * Replaces `latest.json`, if it is still the version that `before` names.
 * @param before its tag; null if the object must not exist yet.
 * @returns its new tag.
 * @throws RemoteError if another worker was faster.
 */
export async function replaceLatest(
  store: ObjectStore,
  latest: Latest,
  before: string | null,
): Promise<string> {
  const key = latestKey(latest.company)
  const body = Buffer.from(`${JSON.stringify(latest, null, 2)}\n`)
  const tag = await store.put(key, body, before === null ? { absent: true } : { tag: before })
  if (tag !== null) return tag
  // The answer of our own write may have been lost.
  const own = await tagIfContent(store, key, body)
  if (own !== null) return own
  throw new RemoteError(`${store.root}/${key} was replaced by another worker. The next run publishes.`)
}
