import { comment } from '#schema/columns.ts'
import { MARTS } from '#schema/marts/marts.ts'
import { publishedColumns, TABLES } from '#schema/tables.ts'

/** Tables and marts as other engines see them. */

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
