/**
 * Brazilian Portuguese names of tables, marts and columns, in the words of people who analyse public tenders.
 * Charts, the catalog and the data dictionary take their labels from here.
 */

import { MART_COLUMNS, MARTS_IN_PORTUGUESE } from './portuguese_marts.ts'
import { TABLE_COLUMNS, TABLES_IN_PORTUGUESE } from './portuguese_tables.ts'

/** `label`: a short name, unique among a table's columns; `description`: one line with units and values. */
export type Portuguese = { readonly label: string; readonly description: string }

/** By the name of the table or mart. */
export const RELATIONS: Readonly<Record<string, Portuguese>> = read({
  ...TABLES_IN_PORTUGUESE,
  ...MARTS_IN_PORTUGUESE,
})

/** By the column's name, for all tables; by `table.column` if it means something else in that table. */
export const COLUMNS: Readonly<Record<string, Portuguese>> = read({ ...TABLE_COLUMNS, ...MART_COLUMNS })

/**
 * Label and description of a table or mart, or of one of its columns.
 * @throws Error that names the missing entry.
 */
export function portuguese(table: string, column?: string): Portuguese {
  if (column === undefined) return find(RELATIONS, table) ?? missing(table)
  return find(COLUMNS, `${table}.${column}`) ?? find(COLUMNS, column) ?? missing(`${table}.${column}`)
}

type Described = { readonly name: string; readonly description: string; readonly unit?: string }

/**
 * The comment on a table, a mart or a column in the catalog and in Metabase: in Portuguese, then in English, with the
 * unit.
 */
export function comment(relation: Described, column?: Described): string {
  const { label, description } = portuguese(relation.name, column?.name)
  const english = (column ?? relation).description
  const unit = column?.unit ? ` [${column.unit}]` : ''
  return `${label}: ${description} (${english}${unit})`
}

function find(entries: Readonly<Record<string, Portuguese>>, key: string): Portuguese | undefined {
  return Object.hasOwn(entries, key) ? entries[key] : undefined
}

function missing(what: string): never {
  throw new Error(`${what} has no Portuguese label. Add one in schema/portuguese_*.ts.`)
}

function read(entries: Readonly<Record<string, readonly [string, string]>>): Record<string, Portuguese> {
  return Object.fromEntries(
    Object.entries(entries).map(([key, [label, description]]) => [key, { label, description }]),
  )
}
