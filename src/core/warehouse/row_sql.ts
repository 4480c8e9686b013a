import { listPublishedColumns, listStoredColumns, TABLES, type Table } from '#schema/tables.ts'
import { identifier, literal } from './quoted.ts'
import { exportColumns, names } from './sql.ts'

/**
 * Options of `COPY` for all Parquet files: what every engine reads. Rows stay in memory until a row group is full: it has at
 * most so many rows, and begins no more of them beyond so many bytes.
 */
export const PARQUET_OPTIONS =
  "FORMAT parquet, PARQUET_VERSION v1, ROW_GROUP_SIZE 20480, ROW_GROUP_SIZE_BYTES '32MB', COMPRESSION zstd"

/** A Parquet file with rows of one table, for the notices of one month. */
export type RowFile = {
  readonly table_name: string
  /** The number of the file; the files of all tables that were written together share it. */
  readonly file: number
  readonly month: string
  readonly rows: number
  readonly bytes: number
  readonly sha256: string
}

/** A table with one row for each element of a list of the latest analysis. */
export type RowTable = Table & Required<Pick<Table, 'each'>>

export const ROW_TABLES: readonly RowTable[] = TABLES.filter(isRowTable)

export function isRowTable(table: Table): table is RowTable {
  return table.each !== undefined && table.rows === 'current'
}

/** Analyses are fetched month by month, many at once: a month is complete if none of the latest ones belongs to it. */
const LATEST_ANALYSES = 64

const COUNTS = ROW_TABLES.map(({ each }) => `${each} BIGINT`).join(', ')

export const ROW_BOOKKEEPING = [
  `CREATE TABLE row_files (file BIGINT, table_name VARCHAR, month VARCHAR, rows BIGINT, bytes BIGINT, sha256 VARCHAR)`,
  // How many rows each analysis has, the month of its notice, and the file that holds them; NULL while they wait.
  `CREATE TABLE row_places (edital_id VARCHAR, month VARCHAR, file BIGINT, ${COUNTS})`,
]

/** Returns the temporary table in which rows of a table wait. */
function waitingTable({ name }: Table): string {
  return identifier(`waiting_${name}`)
}

export function listWaitingTables(): string[] {
  return ROW_TABLES.map(table => {
    const columns = listStoredColumns(table).map(({ name, type }) => `${identifier(name)} ${type}`)
    return `CREATE TEMP TABLE IF NOT EXISTS ${waitingTable(table)} (${columns.join(', ')}, month VARCHAR)`
  })
}

/** Returns where rows of this table are stored when they arrive. */
export function arrivalTable(table: Table): string {
  return isRowTable(table) ? waitingTable(table) : identifier(table.name)
}

/** Returns SQL that places the new rows of the analyses in the staged lines. */
export function placeRows(): string {
  const counts = ROW_TABLES.map(({ each }) => `coalesce(len(analysis.${each}), 0)`)
  return `INSERT INTO row_places SELECT a.edital_id, a.month, NULL, ${counts.join(', ')} FROM lines JOIN analysed a USING (segment, seq)`
}

/** Returns SQL that moves rows to another month. @param changed a relation with notices whose month changed, and the new one. */
export function moveRows(changed: string): string[] {
  return ['row_places', ...ROW_TABLES.map(waitingTable)].map(
    table => `UPDATE ${table} SET month = n.month FROM ${changed} n WHERE n.edital_id = ${table}.edital_id`,
  )
}

/** Returns a query for the months with rows that wait, how many, and whether more of them seem to be on their way. */
export function waitingMonths(latest = LATEST_ANALYSES): string {
  return `
    WITH waiting AS (SELECT *, rowid AS arrived FROM row_places WHERE file IS NULL)
    SELECT month, sum(${ROW_TABLES.map(({ each }) => each).join(' + ')})::BIGINT AS rows,
      max(arrived) > (SELECT max(arrived) FROM waiting) - ${latest} AS arriving
    FROM waiting GROUP BY month`
}

/** The newest segment that changed these tables. */
export const NEWEST_SEGMENT = `SELECT coalesce(max(version), 0) AS segment FROM month_versions
  WHERE table_name IN (${ROW_TABLES.map(({ name }) => literal(name)).join(', ')})`

/**
 * The months that changed after the segment `$since` and whose rows are not exactly those of one file of each table.
 * Their number alone does not show it: as many rows may have arrived as have left.
 */
export const UNSETTLED_MONTHS = `
  WITH changed AS (
    SELECT DISTINCT month FROM month_versions
    WHERE version > $since AND table_name IN (${ROW_TABLES.map(({ name }) => literal(name)).join(', ')})),
  needed AS (
    SELECT month, count(*) FILTER (file IS NULL) AS waiting, count(DISTINCT file) AS files, max(file) AS file,
      ${ROW_TABLES.map(({ each }) => `sum(${each}) AS ${each}`).join(', ')}
    FROM row_places SEMI JOIN changed USING (month) GROUP BY month),
  written AS (
    SELECT file, month, ${ROW_TABLES.map(({ name, each }) => `sum(rows) FILTER (table_name = ${literal(name)}) AS ${each}`).join(', ')}
    FROM row_files GROUP BY file, month)
  SELECT month FROM needed n LEFT JOIN written w USING (file, month)
  WHERE waiting > 0 OR files > 1 OR ${ROW_TABLES.map(({ each }) => `n.${each} <> coalesce(w.${each}, 0)`).join(' OR ')}
  ORDER BY month`

/**
 * The files with rows that count. Analyses without rows are in no file, whatever number they have: it may be that of a
 * file of another month, which would be listed forever.
 */
export const USED_FILES = `SELECT DISTINCT file FROM row_places
  WHERE file IS NOT NULL AND ${ROW_TABLES.map(({ each }) => each).join(' + ')} > 0`

/**
 * Chooses the analyses whose rows go to new files.
 * @param files the month of each.
 */
export function assignFiles(files: ReadonlyMap<number, string>, which: 'waiting' | 'all'): string {
  const targets = [...files].map(([file, month]) => `(${file}, ${literal(month)})`)
  return `CREATE OR REPLACE TEMP TABLE moved AS
    SELECT p.edital_id, p.file AS source, t.file AS file, ${ROW_TABLES.map(({ each }) => `p.${each}`).join(', ')}
    FROM row_places p JOIN (VALUES ${targets.join(', ')}) t(file, month) USING (month)
    ${which === 'waiting' ? 'WHERE p.file IS NULL' : ''}`
}

/** How many rows go from which file to which. `source` is null for those that wait. */
export type Moved = { readonly file: number; readonly source: number | null } & Readonly<
  Record<RowTable['each'], number>
>

export const MOVED_ROWS = `SELECT file, source, ${ROW_TABLES.map(({ each }) => `sum(${each})::BIGINT AS ${each}`).join(', ')}
  FROM moved GROUP BY file, source ORDER BY ALL`

/**
 * Writes the chosen rows of one table into a file.
 * @param sources where they are now.
 */
export function copyRows(
  table: RowTable,
  to: { readonly path: string; readonly file: number; readonly month: string; readonly company: string },
  sources: readonly { readonly source: number | null; readonly path: string | null }[],
): string {
  const parts = sources.map(({ source, path }) =>
    path === null
      ? `SELECT ${exportColumns(table, to.company)} FROM ${waitingTable(table)} t WHERE month = ${literal(to.month)}`
      : `SELECT ${names(listPublishedColumns(table))} FROM read_parquet(${literal(path)}, hive_partitioning = false)
         WHERE edital_id IN (SELECT edital_id FROM moved WHERE file = ${to.file} AND source = ${source})`,
  )
  return `COPY (${parts.join(' UNION ALL ')}) TO ${literal(to.path)} (${PARQUET_OPTIONS})`
}

/**
 * Records where the chosen rows are now, and drops those that waited.
 * @param written the new files.
 * @param months those whose waiting rows were written.
 */
export function finishMove(written: readonly RowFile[], months: readonly string[]): string[] {
  const files = written.map(
    ({ file, table_name, month, rows, bytes, sha256 }) =>
      `(${file}, ${literal(table_name)}, ${literal(month)}, ${rows}, ${bytes}, ${literal(sha256)})`,
  )
  return [
    ...(files.length > 0 ? [`INSERT INTO row_files VALUES ${files.join(', ')}`] : []),
    'UPDATE row_places SET file = m.file FROM moved m WHERE m.edital_id = row_places.edital_id',
    ...ROW_TABLES.map(waitingTable).map(table => {
      // A new table: deleted rows would stay in memory.
      return `CREATE OR REPLACE TEMP TABLE ${table} AS
        FROM ${table} WHERE month NOT IN (${months.map(literal).join(', ')})`
    }),
    'DROP TABLE moved',
  ]
}
