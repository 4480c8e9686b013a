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
  readonly segment: number
  readonly count: number
  readonly last: number
  readonly distinct: number
  /** Lines about a notice that lack its id. */
  readonly nameless: number
  readonly log: string | null
}

/** The staged lines are not all those of their segment, or lack what every line has. */
export class WrongLines extends Error {}

export type SegmentFile = { readonly number: number; readonly path: string }

/** Reads lines of the raw log into the temporary table `lines`. */
export async function stageLines(
  db: Database,
  { number, path, longestLineBytes }: SegmentFile & { readonly longestLineBytes?: number },
): Promise<void> {
  await stage(db, 'lines', {
    columns: `*, ${number}::BIGINT AS segment`,
    files: literal(path),
    ...(longestLineBytes === undefined ? {} : { longestLineBytes }),
  })
}

/** Reads the lines of several segments into the temporary table `staged`. */
export async function stageSegments(db: Database, segments: readonly SegmentFile[]): Promise<void> {
  await stage(db, 'staged', {
    columns: String.raw`* EXCLUDE (filename), regexp_extract(filename, '(\d+)\.ndjson\.zst$', 1)::BIGINT AS segment`,
    files: `[${segments.map(({ path }) => literal(path)).join(', ')}], filename = true`,
  })
}

/**
 * @returns how many lines are staged.
 * @throws FatalError if they do not belong at this place in this log.
 * @throws WrongLines unless they are all the lines of a segment, from 1 to the last, each once, and none lacks its notice.
 */
export async function countStagedLines(db: Database, segment: SegmentFile): Promise<number> {
  const [count] = await countLines(db, 'lines', [segment])
  return count as number
}

/** The same for each of the segments in a table of lines. */
export async function countLines(
  db: Database,
  relation: 'lines' | 'staged',
  segments: readonly SegmentFile[],
): Promise<number[]> {
  const rows = await db.rows<Staged>(
    `SELECT segment, count(*) AS count, max(seq) AS last, count(DISTINCT seq) AS "distinct",
       count(*) FILTER (edital_id IS NULL AND type IN ('notice', 'analysis', 'analysis_same')) AS nameless,
       any_value(number) FILTER (number <> segment) AS "otherNumber", any_value(company) AS company, any_value(log) AS log
     FROM ${relation} GROUP BY segment`,
  )
  const unknown = await unknownRuns(db, relation)
  const own = (await db.row<{ log: string | null }>('SELECT log FROM meta')).log
  const staged = new Map(rows.map(row => [row.segment, row]))
  return segments.map(({ number, path }) => {
    const { count, last, distinct, nameless, ...signs } = staged.get(number) ?? EMPTY
    const otherLog = own === null || signs.log === null || own === signs.log ? null : signs.log
    const foreign = foreignness({ number, ...signs, otherLog, unknownRun: unknown.get(number) ?? null })
    if (foreign !== null) throw unusableSegment(path, foreign)
    if (count > 0 && count === last && count === distinct && nameless === 0) return count
    throw new WrongLines(`${path}: ${counted(count, 'line')} read, but the last one is number ${last}`)
  })
}

const EMPTY = { count: 0, last: 0, distinct: 0, nameless: 0, otherNumber: null, company: null, log: null }

/** The first run of each segment that neither this log nor the segment began. */
async function unknownRuns(db: Database, relation: 'lines' | 'staged'): Promise<ReadonlyMap<number, string>> {
  const unknown = await db.rows<{ segment: number; run: string }>(
    `SELECT min(segment) AS segment, run_id AS run FROM ${relation} ANTI JOIN sync_runs USING (run_id)
     WHERE run_id IS NOT NULL GROUP BY run_id
     HAVING min(segment) IS DISTINCT FROM min(segment) FILTER (type IN ('run_started', 'lost'))
     ORDER BY min(seq) DESC`,
  )
  return new Map(unknown.map(({ segment, run }) => [segment, run]))
}

type Reading = { readonly columns: string; readonly files: string; readonly longestLineBytes?: number }

async function stage(
  db: Database,
  table: string,
  { columns, files, longestLineBytes = USUAL_LINE_BYTES }: Reading,
): Promise<void> {
  const types = Object.entries(LINE).map(([name, type]) => `${literal(name)}: ${literal(type)}`)
  const read = (largestLineBytes: number) =>
    db.run(`CREATE OR REPLACE TEMP TABLE ${table} AS SELECT ${columns} FROM read_json(${files},
      format = 'newline_delimited', hive_partitioning = false, maximum_object_size = ${largestLineBytes}, columns = {${types.join(', ')}})`)
  await read(Math.max(longestLineBytes, MIN_BUFFER_BYTES)).catch(async error => {
    if (!String(error).includes('maximum_object_size')) throw error
    await read(LARGEST_LINE_BYTES)
  })
}
