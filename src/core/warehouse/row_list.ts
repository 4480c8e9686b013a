import { join } from 'node:path'
import { storedColumns, type Table } from '#schema/tables.ts'
import type { Database } from './database.ts'
import { identifier, literal } from './quoted.ts'
import { ROW_TABLES, type RowFile } from './row_sql.ts'
import { names } from './sql.ts'

/** Returns the warehouse's own directory for rows: those of one that is rebuilt must be complete until it is replaced. */
export function rowDirectory(rows: string, warehouseId: string): string {
  return join(rows, warehouseId)
}

export function rowPath(
  directory: string,
  { table_name, file }: Pick<RowFile, 'table_name' | 'file'>,
): string {
  return join(directory, table_name, `${String(file).padStart(6, '0')}.parquet`)
}

/** Returns the files that a warehouse lists. */
export async function listRowFiles(db: Database, catalog = ''): Promise<RowFile[]> {
  return await db.rows<RowFile>(
    `SELECT table_name, file, month, rows, bytes, sha256 FROM ${catalog}row_files ORDER BY table_name, month, file`,
  )
}

/**
 * Returns a query for the rows of one of these tables in a closed warehouse, with its stored columns.
 * @param directory of the warehouse's files.
 */
export function rowsOf(table: Table, directory: string, files: readonly RowFile[]): string {
  const columns = storedColumns(table)
  const paths = files
    .filter(({ table_name }) => table_name === table.name)
    .map(file => literal(rowPath(directory, file)))
  if (paths.length > 0)
    return `SELECT ${names(columns)} FROM read_parquet([${paths.join(', ')}], hive_partitioning = false)`
  const nothing = columns.map(({ name, type }) => `NULL::${type} AS ${identifier(name)}`)
  return `SELECT ${nothing.join(', ')} WHERE false`
}

/**
 * Shows these rows as views in a warehouse that was opened read-only.
 * @param rows the directory with those of all warehouses.
 */
export async function showRows(db: Database, rows: string): Promise<void> {
  const { id } = await db.row<{ id: string }>('SELECT warehouse_id AS id FROM meta')
  const files = await listRowFiles(db)
  for (const table of ROW_TABLES)
    await db.run(
      `CREATE TEMP VIEW ${identifier(table.name)} AS ${rowsOf(table, rowDirectory(rows, id), files)}`,
    )
}
