import { join } from 'node:path'
import { TABLES } from '#schema/tables.ts'
import { Database, type Row } from '#src/core/warehouse/database.ts'
import { showRows } from '#src/core/warehouse/row_files.ts'
import { companyDirectory, type Environment } from './project.ts'

/** Rows as text, by table, sorted. */
export type Tables = Readonly<Record<string, readonly string[]>>

/**
 * Every table of the warehouse file, including unpublished columns and tables. No process may have the file open.
 * @param without columns to omit.
 */
export async function warehouseTables(
  environment: Environment,
  without: readonly string[] = [],
): Promise<Tables> {
  return await tablesOf(placeOf(environment), without)
}

/** The same of another file. */
export async function tablesOf(place: Place, without: readonly string[] = []): Promise<Tables> {
  return await withWarehouse(place, async db => {
    const tables = await db.rows<{ name: string }>(
      `SELECT table_name AS name FROM duckdb_tables() WHERE table_name <> 'row_files'
       UNION ALL SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal ORDER BY ALL`,
    )
    const dumped: [string, string[]][] = []
    for (const { name } of tables) {
      // How rows are divided among files is not part of the data.
      const others = name === 'row_places' ? [...without, 'file'] : without
      const columns = others.map(column => `'${column}'`).join(', ')
      const rows = await db.rows<{ row: string }>(
        `SELECT to_json(t)::VARCHAR AS row
         FROM (SELECT COLUMNS(c -> NOT list_contains([${columns}]::VARCHAR[], c)) FROM "${name}") t ORDER BY ALL`,
      )
      dumped.push([name, rows.map(({ row }) => row)])
    }
    return Object.fromEntries(dumped)
  })
}

/** The published tables except `sync_runs`, to which every run adds a row. */
export function dataTables(tables: Tables): Tables {
  const names = TABLES.map(table => table.name).filter(name => name !== 'sync_runs')
  return Object.fromEntries(names.map(name => [name, tables[name] ?? []]))
}

/** Rows of the warehouse file, for data that is not published at once. */
export async function queryWarehouse<T extends Row>(environment: Environment, sql: string): Promise<T[]> {
  return await withWarehouse(placeOf(environment), db => db.rows<T>(sql))
}

/** A warehouse's file, and the directory with the rows of all warehouses. */
type Place = { readonly path: string; readonly rows: string }

function placeOf(environment: Environment): Place {
  const root = companyDirectory(environment)
  return { path: join(root, 'warehouse.duckdb'), rows: join(root, 'rows') }
}

async function withWarehouse<T>({ path, rows }: Place, use: (db: Database) => Promise<T>): Promise<T> {
  const db = await Database.open(path, { readOnly: true, threads: 1 })
  try {
    await showRows(db, rows)
    return await use(db)
  } finally {
    db.close()
  }
}
