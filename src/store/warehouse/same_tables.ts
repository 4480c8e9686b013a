import { storedColumns, TABLES } from '#schema/tables.ts'
import type { Database } from './database.ts'
import { identifier } from './quoted.ts'
import { listRowFiles, rowsOf } from './row_list.ts'
import { names } from './sql.ts'

/** Where a record is in the log, which is not part of the data. */
const PLACES = ['_segment', '_seq']

/**
 * For each table: the number of rows, and a hash over them that does not depend on their order or their place in the log.
 * @param rowsDirectory the files with the rows of child tables.
 */
export async function hashTables(db: Database, rowsDirectory: string): Promise<Record<string, string>> {
  const files = await listRowFiles(db)
  const pairs: [string, string][] = []
  for (const table of TABLES) {
    const columns = names(storedColumns(table).filter(({ name }) => !PLACES.includes(name)))
    const relation = table.each ? `(${rowsOf(table, rowsDirectory, files)})` : identifier(table.name)
    const { rows, hash } = await db.row<{ rows: number; hash: string }>(
      `SELECT count(*) AS rows, coalesce(sum(hash(t)::HUGEINT), 0)::VARCHAR AS hash FROM (SELECT ${columns} FROM ${relation}) t`,
    )
    pairs.push([table.name, `${rows} ${hash}`])
  }
  return Object.fromEntries(pairs)
}
