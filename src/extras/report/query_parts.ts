import type { Database, Row } from '#src/core/warehouse/database.ts'
import type { Bounded } from './figures.ts'

/** The parts that the report's queries share. */

/** Maximum characters read of a text; the page cuts texts even shorter. */
export const TEXT = 600

/** Returns SQL for a sum of values: added as decimals, so that the order of the rows does not matter. */
export function sumOf(values: string): string {
  return `coalesce(sum(${values}::DECIMAL(20, 4)), 0)::DOUBLE`
}

/** A query for all rows, and which of them are read. */
type List = {
  readonly all: string
  readonly orderBy: string
  readonly limit: number
}

/**
 * Returns the first rows of a list, and the number of all.
 * Counted by a query of its own: DuckDB 1.5.5 fails now and then on a window over all rows, if a filter leaves few
 * (duckdb/duckdb#25713).
 */
export async function readBounded<T extends Row>(db: Database, list: List): Promise<Bounded<T>> {
  const rows = await db.rows<T & { total: number }>(
    `WITH found AS MATERIALIZED (${list.all})
     SELECT *, (SELECT count(*) FROM found) AS total FROM found ORDER BY ${list.orderBy} LIMIT ${list.limit}`,
  )
  return { rows, total: rows[0]?.total ?? 0 }
}
