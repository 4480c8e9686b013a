import { join } from 'node:path'
import { type Column, publishedColumns, TABLES, type Table } from '#schema/tables.ts'
import { Database, identifier, literal } from '#src/warehouse/database.ts'
import type { SnapshotFile } from './manifest.ts'

/**
 * Writes `catalog.duckdb`: a view over exactly the files of each table, with all comments. Opened
 * read-only it is the snapshot as a database.
 * @param directory the snapshot's final, absolute path: views are bound to it here.
 */
export async function writeCatalog(
  directory: string,
  files: ReadonlyMap<string, readonly SnapshotFile[]>,
): Promise<void> {
  const db = await Database.open(join(directory, 'catalog.duckdb'))
  try {
    // One commit: each of some two hundred comments would be one of its own otherwise.
    await db.transaction(async () => {
      for (const table of TABLES) {
        const paths = (files.get(table.name) ?? []).map(file => literal(join(directory, file.path)))
        const list = publishedColumns(table).map(({ name }) => identifier(name))
        await db.run(
          `CREATE VIEW ${identifier(table.name)} AS SELECT ${list.join(', ')} FROM read_parquet([${paths.join(', ')}])`,
        )
        // At once: to hand over each alone costs as much again.
        await db.run(comments(table).join(';\n'))
      }
    })
    await db.run('CHECKPOINT')
  } finally {
    db.close()
  }
}

function comments(table: Table): string[] {
  const view = identifier(table.name)
  return [
    `COMMENT ON VIEW ${view} IS ${literal(table.description)}`,
    ...publishedColumns(table).map(
      column => `COMMENT ON COLUMN ${view}.${identifier(column.name)} IS ${literal(describe(column))}`,
    ),
  ]
}

/** A column's one-line description, with its unit. */
export function describe({ description, unit }: Column): string {
  return unit ? `${description} [${unit}]` : description
}
