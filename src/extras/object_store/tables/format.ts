import type { FormatName } from '#config/remote_lake.ts'
import { comment } from '#schema/columns.ts'
import { MARTS } from '#schema/marts/marts.ts'
import { publishedColumns, TABLES } from '#schema/tables.ts'
import type { ColumnStatistics } from './statistics.ts'

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
  ...TABLES.map(table => ({ ...table, columns: publishedColumns(table) })),
  ...MARTS,
].map(table => ({
  name: table.name,
  comment: comment(table),
  columns: table.columns.map(column => ({
    name: column.name,
    type: typeOf(column.type, `${table.name}.${column.name}`),
    comment: comment(column),
  })),
}))

function typeOf(type: string, column: string): RemoteType {
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
  readonly statisticsOf: (file: RemoteFile) => Promise<readonly ColumnStatistics[]>
  /** Writes a Parquet file of these columns; `rows` are JSON objects. */
  readonly parquetOf: (columns: Readonly<Record<string, string>>, rows: readonly object[]) => Promise<Buffer>
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
