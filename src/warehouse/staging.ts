import { type Database, literal } from './database.ts'
import { documentType, reportType } from './sql.ts'

/** DuckDB's reader sets its buffers by the longest line; this is for one that nobody measured. */
const USUAL_LINE_BYTES = 4 * 1024 * 1024
/** Smaller buffers would only make it slower. */
const MIN_BUFFER_BYTES = 1024 * 1024
/** A body of the greatest size, once as document and once as base64 of what arrived. */
const LARGEST_LINE_BYTES = 128 * 1024 * 1024

/** The line's properties (`src/rawlog/line.ts`) that the projections need, with their types. */
const LINE: Readonly<Record<string, string>> = {
  seq: 'BIGINT',
  run_id: 'VARCHAR',
  at: 'TIMESTAMPTZ',
  type: 'VARCHAR',
  mode: 'VARCHAR',
  analysis_statuses: 'VARCHAR[]',
  refetch_before: 'TIMESTAMPTZ',
  edital_id: 'VARCHAR',
  updated_at: 'VARCHAR',
  source_updated_at: 'VARCHAR',
  hash: 'VARCHAR',
  fetched_at: 'TIMESTAMPTZ',
  fetched_in: 'BIGINT',
  kind: 'VARCHAR',
  reason: 'VARCHAR',
  path: 'VARCHAR',
  excerpt: 'VARCHAR',
  drift: 'STRUCT(path VARCHAR, kind VARCHAR, sample VARCHAR, count BIGINT)[]',
  report: reportType(),
  notice: documentType('notice'),
  analysis: documentType('analysis'),
}

/** Reads lines of the raw log into the temporary table `lines`. */
export async function stageLines(
  db: Database,
  segment: { number: number; path: string; longestLineBytes?: number },
): Promise<void> {
  const { longestLineBytes = USUAL_LINE_BYTES } = segment
  await readLines(db, segment, Math.max(longestLineBytes, MIN_BUFFER_BYTES)).catch(async error => {
    if (!String(error).includes('maximum_object_size')) throw error
    await readLines(db, segment, LARGEST_LINE_BYTES)
  })
}

/**
 * @returns how many lines are staged.
 * @throws Error unless they are all the lines of a segment, from 1 to its last, each once.
 */
export async function countStagedLines(db: Database, path: string): Promise<number> {
  const { count, last, distinct } = await db.row<{ count: number; last: number; distinct: number }>(
    `SELECT count(*) AS count, coalesce(max(seq), 0) AS last, count(DISTINCT seq) AS "distinct" FROM lines`,
  )
  if (count === last && count === distinct) return count
  throw new Error(`${path}: ${count} lines read, but the last one is number ${last}`)
}

async function readLines(
  db: Database,
  { number, path }: { number: number; path: string },
  largestLineBytes: number,
): Promise<void> {
  const columns = Object.entries(LINE).map(([name, type]) => `${literal(name)}: ${literal(type)}`)
  await db.run(`CREATE OR REPLACE TEMP TABLE lines AS SELECT *, ${number}::BIGINT AS segment FROM read_json(${literal(path)},
    format = 'newline_delimited', maximum_object_size = ${largestLineBytes}, columns = {${columns.join(', ')}})`)
}
