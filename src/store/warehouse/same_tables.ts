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

/** Where a record is in the log, which is not part of the data. */
const PLACES = ['_segment', '_seq']

/**
 * For each table, a fingerprint of its rows without their places in the log.
 * @param rowsDirectory the files with the rows of child tables.
 */
export async function hashTables(db: Database, rowsDirectory: string): Promise<Record<string, string>> {
  const files = await listRowFiles(db)
  const pairs: [string, string][] = []
  for (const table of TABLES) {
    const columns = names(storedColumns(table).filter(({ name }) => !PLACES.includes(name)))
    const relation = table.each ? `(${rowsOf(table, rowsDirectory, files)})` : identifier(table.name)
    const { mark } = await db.row<{ mark: string }>(
      `SELECT ${fingerprintOfRows(`(SELECT ${columns} FROM ${relation})`)}::VARCHAR AS mark`,
    )
    pairs.push([table.name, mark])
  }
  return Object.fromEntries(pairs)
}
