import { counted } from '#src/platform/count.ts'
import { foreignness } from '#src/store/rawlog/examine.ts'
import { unusableSegment } from '#src/store/rawlog/files.ts'
import type { Database } from './database.ts'
import { literal } from './quoted.ts'
import { documentType, reportType } from './sql.ts'

/** DuckDB sizes its read buffers by the longest line; this is the default if that is unknown. */
const USUAL_LINE_BYTES = 4 * 1024 * 1024
/** Smaller buffers are only slower. */
const MIN_BUFFER_BYTES = 1024 * 1024
/** A body of maximum size, once as the document and once as base64 of the received bytes. */
const LARGEST_LINE_BYTES = 128 * 1024 * 1024

/** The line's properties (`src/store/rawlog/line.ts`) that the projections need, with their types. */
export const LINE: Readonly<Record<string, string>> = {
  seq: 'BIGINT',
  number: 'BIGINT',
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
  company: 'VARCHAR',
  log: 'VARCHAR',
  kind: 'VARCHAR',
  reason: 'VARCHAR',
  path: 'VARCHAR',
  excerpt: 'VARCHAR',
  drift: 'STRUCT(path VARCHAR, kind VARCHAR, sample VARCHAR, count BIGINT)[]',
  report: reportType(),
  notice: documentType('notice'),
  analysis: documentType('analysis'),
}

type Signs = Parameters<typeof foreignness>[0]

type Staged = Pick<Signs, 'otherNumber' | 'company'> & {
  readonly count: number
  readonly last: number
  readonly distinct: number
  /** Lines about a notice that lack its id. */
  readonly nameless: number
  readonly log: string | null
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
 * @throws FatalError if they do not belong at this place in this log.
 * @throws Error unless they are all the lines of a segment, from 1 to the last, each once, and none lacks its notice.
 */
export async function countStagedLines(
  db: Database,
  { number, path }: { number: number; path: string },
): Promise<number> {
  const staged = await db.row<Staged>(
    `SELECT count(*) AS count, coalesce(max(seq), 0) AS last, count(DISTINCT seq) AS "distinct",
       count(*) FILTER (edital_id IS NULL AND type IN ('notice', 'analysis', 'analysis_same')) AS nameless,
       any_value(number) FILTER (number <> $number) AS "otherNumber", any_value(company) AS company, any_value(log) AS log
     FROM lines`,
    { number },
  )
  const { count, last, distinct, nameless } = staged
  const foreign = foreignness({ number, ...staged, ...(await strangeness(db, staged)) })
  if (foreign !== null) throw unusableSegment(path, foreign)
  if (count > 0 && count === last && count === distinct && nameless === 0) return count
  throw new Error(`${path}: ${counted(count, 'line')} read, but the last one is number ${last}`)
}

/** Runs and the log named in the staged lines that are foreign to this log. */
async function strangeness(
  db: Database,
  { log }: Pick<Staged, 'log'>,
): Promise<Pick<Signs, 'unknownRun' | 'otherLog'>> {
  const [unknown] = await db.rows<{ run: string }>(
    `SELECT run_id AS run FROM lines ANTI JOIN sync_runs USING (run_id) WHERE run_id IS NOT NULL GROUP BY run_id
     HAVING NOT bool_or(type IN ('run_started', 'lost')) ORDER BY min(seq) LIMIT 1`,
  )
  const unknownRun = unknown?.run ?? null
  const own = log === null ? null : (await db.row<{ log: string | null }>('SELECT log FROM meta')).log
  return { unknownRun, otherLog: own === null || own === log ? null : log }
}

async function readLines(
  db: Database,
  { number, path }: { number: number; path: string },
  largestLineBytes: number,
): Promise<void> {
  const columns = Object.entries(LINE).map(([name, type]) => `${literal(name)}: ${literal(type)}`)
  await db.run(`CREATE OR REPLACE TEMP TABLE lines AS SELECT *, ${number}::BIGINT AS segment FROM read_json(${literal(path)},
    format = 'newline_delimited', hive_partitioning = false, maximum_object_size = ${largestLineBytes}, columns = {${columns.join(', ')}})`)
}
