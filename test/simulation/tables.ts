import { mkdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { listPublishedColumns, listStoredColumns, TABLES } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { countNotices, type Manifest } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { listRowFiles, rowDirectory, storedRows } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES } from '#src/core/warehouse/row_sql.ts'
import { MARTS } from '#src/marts/marts.ts'
import { readMartSql } from '#src/marts/open.ts'
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
      listPublishedColumns(table)
        .map(({ name }) => name)
        .filter(name => name !== 'company' && (same || !OF_THE_RUN.includes(name))),
    ]),
  )
  const rows = await rowRelations(db, 'w.', paths.warehouse)
  const inWarehouse = (table: string) => rows.get(table) ?? `w."${table}"`
  const differing = await differingTables(db, columns, [table => `"${table}"`, inWarehouse])
  assertHolds(differing.length === 0, () => `I5: ${differing} differ between snapshot and warehouse`)
  const counted = await countNotices(db)
  assertHolds(
    isDeepStrictEqual(manifest.notices, counted),
    () =>
      `I5: the manifest counts ${JSON.stringify(manifest.notices)}, its tables ${JSON.stringify(counted)}`,
  )
}

/** I5: the rows of marts that the latest snapshot stores are those that its tables give. */
export async function checkStoredMarts({ directory }: Manifest): Promise<void> {
  const db = await Database.open(join(directory, 'catalog.duckdb'), { readOnly: true, threads: 1 })
  try {
    const stored = MARTS.filter(({ storedFrom }) => storedFrom)
    const columns = new Map(stored.map(mart => [mart.name, mart.columns.map(({ name }) => name)]))
    const sql = new Map(
      await Promise.all(stored.map(async mart => [mart.name, await readMartSql(mart)] as const)),
    )
    const differing = await differingTables(db, columns, [name => `"${name}"`, name => `(${sql.get(name)})`])
    assertHolds(differing.length === 0, () => `I5: ${differing} are not what the snapshot's tables give`)
  } finally {
    db.close()
  }
}

const NOTHING = { columns: [], tables: [] }

/** Its own name, and how rows are divided among files. */
const OF_THE_WAREHOUSE = ['warehouse_id', 'file']

/** The child tables of an attached warehouse, by name: their rows are in files beside it. */
async function rowRelations(
  db: Database,
  catalog: string,
  path: string,
): Promise<ReadonlyMap<string, string>> {
  const { id } = await db.row<{ id: string }>(`SELECT warehouse_id AS id FROM ${catalog}meta`)
  const directory = rowDirectory(join(dirname(path), 'rows'), id)
  const files = await listRowFiles(db, catalog)
  return new Map(ROW_TABLES.map(table => [table.name, `(${storedRows(table, directory, files)})`]))
}

/** Moves a warehouse and the files of its rows to another directory; returns its new path. */
export async function setWarehouseAside({ root, warehouse, rows }: CompanyPaths): Promise<string> {
  const aside = join(root, 'before')
  await mkdir(aside)
  await rename(warehouse, join(aside, basename(warehouse)))
  await rename(rows, join(aside, basename(rows)))
  return join(aside, basename(warehouse))
}

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
       WHERE database_name = 'a' AND NOT list_contains([${list([...OF_THE_WAREHOUSE, ...without.columns])}], column_name)
         AND NOT list_contains([${list(['row_files', ...without.tables])}]::VARCHAR[], table_name) GROUP BY ALL ORDER BY ALL`,
    )
    const byTable = new Map(columns.map(table => [table.name, table.columns.split(',')]))
    for (const table of ROW_TABLES.filter(({ name }) => !without.tables.includes(name)))
      byTable.set(
        table.name,
        listStoredColumns(table)
          .map(({ name }) => name)
          .filter(name => !without.columns.includes(name)),
      )
    const [rowsOfA, rowsOfB] = [await rowRelations(db, 'a.', a), await rowRelations(db, 'b.', b)]
    const differing = await differingTables(db, byTable, [
      table => rowsOfA.get(table) ?? `a."${table}"`,
      table => rowsOfB.get(table) ?? `b."${table}"`,
    ])
    assertHolds(differing.length === 0, () => `I6: a rebuild of the log gives other rows in ${differing}`)
  } finally {
    db.close()
  }
}

function list(texts: readonly string[]): string {
  return texts.map(literal).join(', ')
}

/** What to read a table from. */
type Relation = (table: string) => string

/** Tables whose rows differ between two databases, in any order. */
async function differingTables(
  db: Database,
  columns: ReadonlyMap<string, readonly string[]>,
  [one, other]: readonly [Relation, Relation],
): Promise<string[]> {
  const digest = (relation: Relation, table: string, names: readonly string[]) =>
    `SELECT '${table}' AS name, concat_ws(' ', count(*), sum(hash(${names.map(name => `"${name}"`).join(', ')})::HUGEINT)) AS digest
     FROM ${relation(table)}`
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
