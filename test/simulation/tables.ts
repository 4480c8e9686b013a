import { isDeepStrictEqual } from 'node:util'
import { publishedColumns, TABLES } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import type { Manifest } from '#src/store/lake/manifest.ts'
import { countNotices } from '#src/store/lake/notice_counts.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'
import { assertHolds } from './assertions.ts'

/** Columns that depend on the run that wrote the row, and not on a document. */
export const OF_THE_RUN = [
  'company',
  'run_id',
  'first_seen_at',
  'changed_at',
  'fetched_at',
  'source_updated_at',
]

/** I5: all tables of the latest snapshot match the warehouse. */
export async function checkPublished(db: Database, paths: CompanyPaths, manifest: Manifest): Promise<void> {
  await db.run(`ATTACH ${literal(paths.warehouse)} AS w (READ_ONLY)`)
  const { applied } = await db.row<{ applied: number }>('SELECT applied_segment AS applied FROM w.meta')
  // Updates of dates alone do not make a new snapshot at once.
  const same = applied === manifest.applied_segment
  const compared = TABLES.filter(({ name }) => same || !['sync_runs', 'schema_drift'].includes(name))
  const columns = new Map(
    compared.map(table => [
      table.name,
      publishedColumns(table)
        .map(({ name }) => name)
        .filter(name => name !== 'company' && (same || !OF_THE_RUN.includes(name))),
    ]),
  )
  const differing = await differingTables(db, columns, ['', 'w.'])
  assertHolds(differing.length === 0, () => `I5: ${differing} differ between snapshot and warehouse`)
  const counted = await countNotices(db)
  assertHolds(
    isDeepStrictEqual(manifest.notices, counted),
    () =>
      `I5: the manifest counts ${JSON.stringify(manifest.notices)}, its tables ${JSON.stringify(counted)}`,
  )
}

const NOTHING = { columns: [], tables: [] }

/** I6: two warehouses of the same log hold the same rows. Only their ids differ. */
export async function checkSameTables(
  a: string,
  b: string,
  without: { columns: readonly string[]; tables: readonly string[] } = NOTHING,
): Promise<void> {
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    await db.run(`ATTACH ${literal(a)} AS a (READ_ONLY)`)
    await db.run(`ATTACH ${literal(b)} AS b (READ_ONLY)`)
    const columns = await db.rows<{ name: string; columns: string }>(
      `SELECT table_name AS name, string_agg(column_name, ',' ORDER BY column_index) AS columns FROM duckdb_columns()
       WHERE database_name = 'a' AND NOT list_contains([${list(['warehouse_id', ...without.columns])}], column_name)
         AND NOT list_contains([${list(without.tables)}]::VARCHAR[], table_name) GROUP BY ALL ORDER BY ALL`,
    )
    const byTable = new Map(columns.map(table => [table.name, table.columns.split(',')]))
    const differing = await differingTables(db, byTable, ['a.', 'b.'])
    assertHolds(differing.length === 0, () => `I6: a rebuild of the log gives other rows in ${differing}`)
  } finally {
    db.close()
  }
}

function list(texts: readonly string[]): string {
  return texts.map(literal).join(', ')
}

/** Tables whose rows differ between two databases, in any order. */
async function differingTables(
  db: Database,
  columns: ReadonlyMap<string, readonly string[]>,
  [one, other]: readonly [string, string],
): Promise<string[]> {
  const digest = (where: string, table: string, names: readonly string[]) =>
    `SELECT '${table}' AS name, concat_ws(' ', count(*), sum(hash(${names.map(name => `"${name}"`).join(', ')})::HUGEINT)) AS digest
     FROM ${where}"${table}"`
  const digests = [...columns].flatMap(([table, names]) => [
    digest(one, table, names),
    digest(other, table, names),
  ])
  const rows = await db.rows<{ name: string; digest: string }>(digests.join(' UNION ALL '))
  const byTable = Map.groupBy(rows, ({ name }) => name)
  return [...byTable].filter(([, [a, b]]) => a?.digest !== b?.digest).map(([table]) => table)
}

export async function countRuns(warehouse: string): Promise<number> {
  const db = await Database.open(warehouse, { readOnly: true, threads: 1 })
  try {
    return (await db.row<{ n: number }>('SELECT count(*) AS n FROM sync_runs')).n
  } finally {
    db.close()
  }
}
