import { createReadStream } from 'node:fs'
import { TABLES } from '#schema/tables.ts'
import { explainForeignness } from '#src/core/rawlog/examine.ts'
import { readLines, unusableSegment } from '#src/core/rawlog/files.ts'
import { pluralize } from '#src/lib/count.ts'
import { remove } from '#src/lib/durable.ts'
import { streamLines } from '#src/lib/lines.ts'
import { BoundedFiles } from './bounded_files.ts'
import { type Cut, carryDocument, type DocumentKind, isShort, SHORT_LENGTH } from './cut.ts'
import { type Database, isMemoryError } from './database.ts'
import { literal } from './quoted.ts'
import { documentType, longRow, reportType } from './sql.ts'

/** DuckDB sizes its read buffers by the longest line; this is the default if that is unknown. */
const USUAL_LINE_BYTES = 4 * 1024 * 1024
/** Smaller buffers are only slower. */
const MIN_BUFFER_BYTES = 1024 * 1024

/** The line's properties (`src/core/rawlog/line.ts`) that the projections need, with their types. */
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

type Signs = Parameters<typeof explainForeignness>[0]

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

/**
 * Reads lines of the raw log into the temporary table `lines`. If the tables cannot carry all their texts, these are cut, and
 * `whole_parts` has the documents.
 */
export async function stageLines(
  db: Database,
  { number, path, longestLineBytes = USUAL_LINE_BYTES }: SegmentFile & { readonly longestLineBytes?: number },
  temporaryDirectory: string,
): Promise<void> {
  if (longestLineBytes <= USUAL_LINE_BYTES) {
    try {
      await stage(db, 'lines', OF_SEGMENT(number), readSegments(literal(path), longestLineBytes))
      if (longestLineBytes <= SHORT_LENGTH || !(await haveLongRow(db, 'lines'))) return
    } catch (error) {
      if (!isTooLarge(error)) throw error
    }
  }
  await stageShortened(db, { number, path }, temporaryDirectory)
}

/** Reads lines that may be long into the same tables: the program cuts them before DuckDB reads them, which takes longer. */
export async function stageShortened(
  db: Database,
  { number, path }: SegmentFile,
  temporaryDirectory: string,
): Promise<void> {
  const files = { directory: temporaryDirectory, name: `segment-${number}`, columns: LINE_COLUMNS }
  // Those of a failed attempt take memory.
  await db.run(NO_LINES)
  const { lines, parts, remove } = await shortenLines(path, files)
  try {
    await stage(db, 'lines', OF_SEGMENT(number), lines ?? readSegments(literal(path), 0))
    if (parts !== null)
      await db.run(`INSERT INTO whole_parts SELECT ${number}, seq, ordinal, content FROM ${parts}`)
  } finally {
    await remove()
  }
}

const OF_SEGMENT = (number: number) => `*, ${number}::BIGINT AS segment`

/** The parts of documents in the staged lines whose texts are cut: none for nearly all segments. Deleted rows would stay in memory. */
export const WHOLE_PARTS = `CREATE OR REPLACE TEMP TABLE whole_parts
  (segment BIGINT, seq BIGINT, ordinal INTEGER, content VARCHAR)`

/** Drops the staged lines. */
export const NO_LINES = `DROP TABLE IF EXISTS lines; ${WHOLE_PARTS}`

/** Returns whether DuckDB cannot read the lines of a segment as they are: too long, or too much at once. */
function isTooLarge(error: unknown): boolean {
  return isMemoryError(error) || String(error).includes('maximum_object_size')
}

/** Returns whether the tables might not carry a text of the staged lines. */
async function haveLongRow(db: Database, relation: 'lines' | 'staged'): Promise<boolean> {
  const rows = TABLES.filter(({ document }) => document !== 'kept').map(longRow)
  const [long] = await db.rows(`SELECT 1 FROM ${relation} WHERE ${[...new Set(rows)].join(' OR ')} LIMIT 1`)
  return long !== undefined
}

/**
 * Reads the lines of several segments into the temporary table `staged`.
 * @returns false if they must be staged one by one, because the tables cannot carry all their texts.
 */
export async function stageSegments(db: Database, segments: readonly SegmentFile[]): Promise<boolean> {
  try {
    const columns = String.raw`* EXCLUDE (filename), regexp_extract(filename, '(\d+)\.ndjson\.zst$', 1)::BIGINT AS segment`
    const files = `[${segments.map(({ path }) => literal(path)).join(', ')}], filename = true`
    await stage(db, 'staged', columns, readSegments(files, USUAL_LINE_BYTES))
    return !(await haveLongRow(db, 'staged'))
  } catch (error) {
    if (isTooLarge(error)) return false
    throw error
  }
}

/**
 * Counts the staged lines of a segment.
 * @param first the number of the first line that must be staged; 1 unless a segment is applied in batches.
 * @returns how many lines are staged.
 * @throws FatalError if they do not belong at this place in this log.
 * @throws WrongLines unless they are all the lines of a segment, from the first to the last, each once, and none lacks its
 * notice.
 */
export async function countStagedLines(db: Database, segment: SegmentFile, first = 1): Promise<number> {
  const [count] = await countLines(db, 'lines', [segment], first)
  return count as number
}

/** Counts the staged lines of each segment in a table of lines, with the same checks as `countStagedLines`. */
export async function countLines(
  db: Database,
  relation: 'lines' | 'staged',
  segments: readonly SegmentFile[],
  first = 1,
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
    const foreign = explainForeignness({
      number,
      ...signs,
      otherLog,
      unknownRun: unknown.get(number) ?? null,
    })
    if (foreign !== null) throw unusableSegment(path, foreign)
    if (count > 0 && count === last - first + 1 && count === distinct && nameless === 0) return count
    throw new WrongLines(`${path}: ${pluralize(count, 'line')} read, but the last one is number ${last}`)
  })
}

const EMPTY = { count: 0, last: 0, distinct: 0, nameless: 0, otherNumber: null, company: null, log: null }

/** Returns the first run of each segment that neither this log nor the segment began. */
async function unknownRuns(db: Database, relation: 'lines' | 'staged'): Promise<ReadonlyMap<number, string>> {
  const unknown = await db.rows<{ segment: number; run: string }>(
    `SELECT min(segment) AS segment, run_id AS run FROM ${relation} ANTI JOIN sync_runs USING (run_id)
     WHERE run_id IS NOT NULL GROUP BY run_id
     HAVING min(segment) IS DISTINCT FROM min(segment) FILTER (type IN ('run_started', 'lost'))
     ORDER BY min(seq) DESC`,
  )
  return new Map(unknown.map(({ segment, run }) => [segment, run]))
}

const LINE_COLUMNS = `{${Object.entries(LINE)
  .map(([name, type]) => `${literal(name)}: ${literal(type)}`)
  .join(', ')}}`

/** Returns SQL that reads segments. @param files SQL for a path or a list of paths, and further options. */
function readSegments(files: string, longestLineBytes: number): string {
  return `read_json(${files}, format = 'newline_delimited', hive_partitioning = false,
    maximum_object_size = ${Math.max(longestLineBytes, MIN_BUFFER_BYTES)}, columns = ${LINE_COLUMNS})`
}

async function stage(db: Database, table: string, columns: string, relation: string): Promise<void> {
  await db.run(`CREATE OR REPLACE TEMP TABLE ${table} AS SELECT ${columns} FROM ${relation}`)
}

/** The longest part of a whole document: a row of `whole_documents` is as small as other rows. */
const PART_CHARACTERS = 8 * 1024

/** SQL relations of the lines, and of the parts of documents that are cut; null for a relation without rows. */
type Shortened = {
  readonly lines: string | null
  /** `seq`, `ordinal` from 1, `content`. */
  readonly parts: string | null
  /** Removes the files. */
  remove(): Promise<void>
}

/**
 * Writes the lines of a segment as the tables carry them.
 * @param name of the files, in a directory for temporary files.
 * @param columns of the lines, as SQL for `read_json`.
 */
async function shortenLines(
  path: string,
  { directory, name, columns }: { directory: string; name: string; columns: string },
): Promise<Shortened> {
  const lines = new BoundedFiles(directory, `${name}-lines`)
  const parts = new BoundedFiles(directory, `${name}-parts`)
  try {
    // A segment, or the lines of one that are applied apart.
    for await (const text of path.endsWith('.zst') ? readLines(path) : streamLines(createReadStream(path))) {
      const { line, whole } = shortenedLine(text)
      await lines.add([line])
      if (whole === null) continue
      const { seq, document } = whole
      await parts.add(
        [...splitParts(document)].map((content, index) =>
          JSON.stringify({ seq, ordinal: index + 1, content }),
        ),
      )
    }
    await Promise.all([lines.flush(), parts.flush()])
  } finally {
    await Promise.all([lines.close(), parts.close()])
  }
  return {
    lines: lines.paths.length === 0 ? null : lines.relation(columns),
    parts: parts.paths.length === 0 ? null : parts.relation(PART_COLUMNS),
    async remove() {
      for (const file of [...lines.paths, ...parts.paths]) await remove('temporary.remove', file)
    },
  }
}

const PART_COLUMNS = `{seq: 'BIGINT', ordinal: 'INTEGER', content: 'VARCHAR'}`

type ShortenedLine = {
  readonly line: string
  /** The document, if it is cut. */
  readonly whole: { readonly seq: number; readonly document: string } | null
}

function shortenedLine(text: string): ShortenedLine {
  if (isShort(text)) return { line: text, whole: null }
  // Statements do not read the received bytes.
  const { raw: _raw, ...line } = JSON.parse(text) as Record<string, unknown>
  const kind = (['notice', 'analysis'] satisfies DocumentKind[]).find(one => one === line.type)
  const whole = kind && line[kind]
  if (!kind || typeof whole !== 'object' || whole === null) return { line: JSON.stringify(line), whole: null }
  const { document, cuts } = carryDocument(kind, whole)
  if (cuts.length === 0) return { line: JSON.stringify({ ...line, [kind]: document }), whole: null }
  const drift = [...((line.drift as object[] | undefined) ?? []), ...makeDrift(String(line.edital_id), cuts)]
  return {
    line: JSON.stringify({ ...line, drift, [kind]: document }),
    whole: { seq: Number(line.seq), document: JSON.stringify(whole) },
  }
}

/** Returns the rows of `schema_drift` for texts that are cut, one for each field. */
function makeDrift(editalId: string, cuts: readonly Cut[]): object[] {
  return [...Map.groupBy(cuts, ({ path }) => path)].map(([path, some]) => {
    const longest = Math.max(...some.map(({ bytes }) => bytes))
    return { path, kind: 'too_long', sample: `${editalId}: ${longest} bytes`, count: some.length }
  })
}

function* splitParts(text: string): Generator<string> {
  let start = 0
  while (start < text.length) {
    const end = start + PART_CHARACTERS
    // Not within a pair of surrogates.
    const isPair = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800
    yield text.slice(start, isPair ? end + 1 : end)
    start = isPair ? end + 1 : end
  }
}
