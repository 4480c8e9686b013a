import { createHash } from 'node:crypto'
import { version } from '@duckdb/node-api'
import { TABLES } from '#schema/tables.ts'
import { listStatements } from './projection.ts'
import { isRowTable, ROW_BOOKKEEPING } from './row_sql.ts'
import { createTable } from './sql.ts'
import { LINE } from './staging.ts'

/**
 * Raise it if the same log gives other rows in the same columns (statements, DuckDB), and if a column changes or goes.
 * A new column says in its record `since` which version it is there.
 */
const STATEMENTS_VERSION = 16

/**
 * An older version of the program recognises a newer warehouse by it: a hash shows that two differ, not which one is
 * newer. `editais dictionary` records it with the hash, and refuses if only the hash changed.
 */
export const SCHEMA_VERSION = Math.max(
  STATEMENTS_VERSION,
  ...TABLES.flatMap(({ columns }) => columns.map(({ since = 0 }) => since)),
)

const BOOKKEEPING = [
  `CREATE TABLE meta (schema_version INTEGER, schema_hash VARCHAR, warehouse_id VARCHAR, applied_segment BIGINT, data_version BIGINT,
     refetch_segment BIGINT, refetch_open BOOLEAN, analysis_statuses VARCHAR[], log VARCHAR, settled_segment BIGINT)`,
  `CREATE TABLE applied_segments (segment BIGINT, lines BIGINT)`,
  `CREATE TABLE month_versions (table_name VARCHAR, month VARCHAR, version BIGINT, PRIMARY KEY (table_name, month))`,
  ...ROW_BOOKKEEPING,
]

/** Returns the statements that create the tables of an empty warehouse. Rows of child tables are stored in files. */
export function createTables(): readonly string[] {
  return [...BOOKKEEPING, ...TABLES.filter(table => !isRowTable(table)).flatMap(createTable)]
}

/** Changes whenever the same log would produce different tables. Files of rows have the company's name, which may change. */
export function hashSchema(sourceTimezone: string, company: string): string {
  const parts = [
    // Fingerprints use DuckDB's own hash, which may change between versions.
    version(),
    company,
    SCHEMA_VERSION,
    createTables(),
    LINE,
    listStatements(sourceTimezone),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}
