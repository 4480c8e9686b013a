import { listPublishedColumns } from '#schema/tables.ts'
import { makePrintable } from '#schema/text_key.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { listRowFiles, rowPath } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES, type RowFile, type RowTable } from '#src/core/warehouse/row_sql.ts'
import { createTables, SCHEMA_VERSION } from '#src/core/warehouse/schema.ts'
import { answerOrders } from '#src/lib/child.ts'
import { closing } from '#src/lib/closing.ts'
import { pluralize } from '#src/lib/count.ts'
import { getMessage } from '#src/lib/errors.ts'
import { fence } from '#src/present/sql/fence.ts'

/**
 * Warehouses that another party may have written. Such a file is data: opening it as our own would run what it defines in
 * the place of our tables, with the rights of this process.
 */

export type ForeignWarehouse = {
  /** Its file. It is only read. */
  readonly path: string
  /** The directory of its rows' files. */
  readonly rows: string
  /** The file that the rows of its tables are copied to. */
  readonly fresh: string
  readonly temporary: string
  readonly company: string
  /** The expected content. */
  readonly expected: {
    readonly segment: number
    readonly warehouse_id: string
    readonly schema_hash: string
    readonly rows: readonly Pick<RowFile, 'table_name' | 'file' | 'bytes' | 'sha256'>[]
  }
}

/** Completes a sentence that begins with the warehouse. */
class Refusal extends Error {}

const FOREIGN = 'foreign_file'
const FRESH = 'fresh_file'
/** Names the files of a month. */
const MONTH = /^-?\d{1,6}-\d{2}$/
const MAX_SHOWN = 60

/**
 * Copies the rows of a foreign warehouse into a fresh file, if it has exactly our tables and nothing else, and if its
 * files of rows have what it says. SQL reaches no other file.
 * @returns why it cannot be used, as the end of a sentence; null if it was copied.
 */
export async function copyForeign(warehouse: ForeignWarehouse): Promise<string | null> {
  const { path, fresh, rows, temporary, expected } = warehouse
  using db = closing(await Database.open(':memory:', { temporaryDirectory: temporary }))
  try {
    // Rows stay in the order in which they came, as in our own files.
    await db.run('SET preserve_insertion_order = true')
    const files = expected.rows.map(file => rowPath(rows, file))
    const beside = ['', '.wal', '.wal.checkpoint', '.wal.recovery']
    const databases = [path, fresh].flatMap(file => beside.map(ending => `${file}${ending}`))
    await fence(db, [...databases, ...files])
    await db.run(`ATTACH ${literal(path)} AS ${FOREIGN} (READ_ONLY)`)
    await db.attachProjection(fresh, FRESH)
    await db.run(`USE ${FRESH}; ${createTables().join(';\n')}; USE memory`)
    await assertOnlyOurTables(db)
    for (const { name, columns } of await listTables(db, FRESH)) await copyTable(db, name, columns)
    await assertFacts(db, warehouse)
    for (const table of ROW_TABLES) await assertRows(db, table, warehouse)
    await db.run(`CHECKPOINT ${FRESH}`)
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    return `cannot be read (${makePrintable(getMessage(error).slice(0, 200))})`
  }
}

/** Returns SQL for everything that a database defines, as our own catalog of it shows it. */
function definitions(database: string): string {
  const from = (what: string, name: string, sql: string, where = 'true') =>
    `SELECT '${what}' AS what, schema_name || '.' || ${name} AS name, coalesce(${sql}, '') AS definition
     FROM duckdb_${what}s() WHERE database_name = '${database}' AND ${where}`
  return [
    from('table', 'table_name', 'sql'),
    from('view', 'view_name', 'sql', 'NOT internal'),
    from('index', 'index_name', 'sql').replace('duckdb_indexs', 'duckdb_indexes'),
    from('sequence', 'sequence_name', 'sql'),
    from('function', 'function_name', 'macro_definition', 'NOT internal'),
    from('type', 'type_name', 'logical_type', 'NOT internal'),
    from('schema', "''", 'sql', 'NOT internal'),
    // Defaults, and expressions of generated columns.
    `SELECT 'column', table_name || '.' || column_name, concat_ws(' ', column_index, data_type, is_nullable, column_default)
     FROM duckdb_columns() WHERE database_name = '${database}' AND NOT internal`,
    from('constraint', 'table_name', 'constraint_text'),
  ].join(' UNION ALL ')
}

/** Throws Refusal naming the first definition that differs from ours. */
async function assertOnlyOurTables(db: Database): Promise<void> {
  const rows = await db.rows<{ what: string; name: string; isTheirs: boolean }>(
    `WITH theirs AS (${definitions(FOREIGN)}), ours AS (${definitions(FRESH)})
     FROM (SELECT what, name, true AS "isTheirs" FROM (FROM theirs EXCEPT ALL FROM ours)
       UNION ALL SELECT what, name, false FROM (FROM ours EXCEPT ALL FROM theirs))
     ORDER BY "isTheirs" DESC, what = 'column', what, name LIMIT 1`,
  )
  const [first] = rows
  if (!first) return
  const name = shown(first.name)
  throw new Refusal(
    first.isTheirs
      ? `defines the ${first.what} ${name}, which no warehouse of this version has`
      : `lacks the ${first.what} ${name}`,
  )
}

function shown(name: string): string {
  return name.slice(0, MAX_SHOWN).replace(/[^\w.]/g, '?')
}

async function listTables(db: Database, database: string): Promise<{ name: string; columns: string[] }[]> {
  return await db.rows(
    `SELECT table_name AS name, list(column_name ORDER BY column_index) AS columns FROM duckdb_columns()
     WHERE database_name = '${database}' AND NOT internal GROUP BY table_name ORDER BY table_name`,
  )
}

async function copyTable(db: Database, name: string, columns: readonly string[]): Promise<void> {
  const list = columns.map(identifier).join(', ')
  const table = identifier(name)
  await db.run(`INSERT INTO ${FRESH}.main.${table} (${list}) SELECT ${list} FROM ${FOREIGN}.main.${table}`)
}

/** Compares what the copy says of itself with what it must be; later statements and file names are made of it. */
async function assertFacts(db: Database, { expected }: ForeignWarehouse): Promise<void> {
  const { segment, warehouse_id, schema_hash } = expected
  const facts = await db.rows(
    `SELECT 1 AS one FROM ${FRESH}.meta
     WHERE schema_version = ${SCHEMA_VERSION} AND schema_hash = $hash AND warehouse_id = $id AND applied_segment = ${segment}
       AND data_version BETWEEN 0 AND applied_segment AND coalesce(refetch_segment, 0) BETWEEN 0 AND applied_segment`,
    { hash: schema_hash, id: warehouse_id },
  )
  const { metas } = await db.row<{ metas: number }>(`SELECT count(*) AS metas FROM ${FRESH}.meta`)
  if (facts.length !== 1 || metas !== 1) throw new Refusal('is not the one that the checkpoint describes')
  const months = await db.rows<{ month: string | null }>(
    `SELECT DISTINCT month FROM (SELECT month FROM ${FRESH}.row_places UNION ALL SELECT month FROM ${FRESH}.row_files
       UNION ALL SELECT month FROM ${FRESH}.month_versions)`,
  )
  if (months.some(({ month }) => !MONTH.test(month ?? '')))
    throw new Refusal('has something else than a month')
  const { wrong } = await db.row<{ wrong: number }>(
    `SELECT count(*) AS wrong FROM ${FRESH}.month_versions WHERE version NOT BETWEEN 0 AND ${segment}`,
  )
  const { twice } = await db.row<{ twice: number }>(
    `SELECT count(*) - count(DISTINCT edital_id) AS twice FROM ${FRESH}.row_places`,
  )
  if (wrong + twice > 0) throw new Refusal('contradicts itself')
  const key = ({ table_name, file, bytes, sha256 }: ForeignWarehouse['expected']['rows'][number]) =>
    `${table_name} ${file} ${bytes} ${sha256}`
  const listed = (await listRowFiles(db, `${FRESH}.`)).map(key).sort()
  if (listed.join('\n') !== expected.rows.map(key).sort().join('\n'))
    throw new Refusal('lists other files than the checkpoint')
}

/** Reads all rows of a table once: its files have our columns, this company, and the rows that the warehouse counts. */
async function assertRows(
  db: Database,
  table: RowTable,
  { rows: directory, company }: ForeignWarehouse,
): Promise<void> {
  const files = (await listRowFiles(db, `${FRESH}.`)).filter(({ table_name }) => table_name === table.name)
  const columns = listPublishedColumns(table).map(({ name, type }) => `${name} ${type}`)
  for (const file of files) {
    const described = await db.rows<{ column_name: string; column_type: string }>(
      `DESCRIBE FROM read_parquet(${literal(rowPath(directory, file))}, hive_partitioning = false)`,
    )
    const found = described.map(({ column_name, column_type }) => `${column_name} ${column_type}`)
    if (found.join() !== columns.map(usualType).join())
      throw new Refusal(`has other columns in a file of ${table.name}`)
  }
  if (files.length === 0) return
  const paths = files.map(file => literal(rowPath(directory, file))).join(', ')
  // The hash reads every value, so that none is read for the first time in another process.
  const { wrong } = await db.row<{ wrong: number }>(
    `WITH read AS (
       SELECT regexp_extract(filename, '(\\d+)\\.parquet$', 1)::BIGINT AS file, edital_id, count(*) AS n,
         count(*) FILTER (company IS DISTINCT FROM $company) AS others, bit_xor(hash(r)) AS all_values
       FROM read_parquet([${paths}], hive_partitioning = false, filename = true) r GROUP BY ALL),
     placed AS (SELECT file, edital_id, ${table.each} AS n FROM ${FRESH}.row_places WHERE file IS NOT NULL AND ${table.each} <> 0)
     SELECT (SELECT count(*) FROM read WHERE others > 0 OR all_values IS NULL)
       + (SELECT count(*) FROM placed LEFT JOIN read USING (file, edital_id) WHERE placed.n IS DISTINCT FROM read.n)
       + (SELECT count(*) FROM (SELECT file, sum(n) AS n FROM read GROUP BY file) r
          RIGHT JOIN ${FRESH}.row_files f USING (file) WHERE f.table_name = ${literal(table.name)} AND f.rows IS DISTINCT FROM r.n)
       AS wrong`,
    { company },
  )
  if (wrong > 0)
    throw new Refusal(
      `has other rows in its files of ${table.name} than it counts (${pluralize(wrong, 'place')})`,
    )
}

/** Returns a column with its type as DuckDB describes it. */
function usualType(column: string): string {
  return column.replace(/ TIMESTAMPTZ$/, ' TIMESTAMP WITH TIME ZONE')
}

// Runs in a separate process: a file that was made to break the database's code breaks only this one.
if (import.meta.main)
  answerOrders(async (warehouse: ForeignWarehouse) => ({ error: await copyForeign(warehouse) }))
