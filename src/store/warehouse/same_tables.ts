import { storedColumns, TABLES } from '#schema/tables.ts'
import type { Database } from './database.ts'
import { identifier } from './quoted.ts'
import { listRowFiles, rowsOf } from './row_list.ts'
import { names } from './sql.ts'

/**
 * SQL for a value that two relations share if they have the same rows, in any order.
 * @param rows a relation.
 */
export function fingerprintOfRows(rows: string): string {
  return `(SELECT {'rows': count(*), 'mixed': bit_xor(hash(t)), 'summed': sum(hash(t)::HUGEINT)} FROM ${rows} t)`
}

/**
 * For each table, a fingerprint of its rows.
 * @param rowsDirectory the files with the rows of child tables.
 * @param without columns to leave out.
 */
export async function hashTables(
  db: Database,
  rowsDirectory: string,
  without: readonly string[] = [],
): Promise<Record<string, string>> {
  const files = await listRowFiles(db)
  const pairs: [string, string][] = []
  for (const table of TABLES) {
    const columns = names(storedColumns(table).filter(({ name }) => !without.includes(name)))
    const relation = table.each ? `(${rowsOf(table, rowsDirectory, files)})` : identifier(table.name)
    const { mark } = await db.row<{ mark: string }>(
      `SELECT ${fingerprintOfRows(`(SELECT ${columns} FROM ${relation})`)}::VARCHAR AS mark`,
    )
    pairs.push([table.name, mark])
  }
  return Object.fromEntries(pairs)
}
