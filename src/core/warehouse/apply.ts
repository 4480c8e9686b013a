import { join } from 'node:path'
import { findDamage } from '#src/core/rawlog/examine.ts'
import { readLines, unusableSegment } from '#src/core/rawlog/files.ts'
import { takeExcerpt } from '#src/core/rawlog/line.ts'
import { remove, writeNew } from '#src/lib/durable.ts'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { type Database, isMemoryError } from './database.ts'
import {
  LOG_NAMED,
  type Projection,
  projectElements,
  projectLines,
  SEGMENT_APPLIED,
  UP_TO,
} from './projection.ts'
import {
  countLines,
  countStagedLines,
  NO_LINES,
  type SegmentFile,
  stageLines,
  stageSegments,
  stageShortened,
  WrongLines,
} from './staging.ts'

type StagedSegment = {
  readonly number: number
  readonly path: string
  /** Known if this process wrote the segment. */
  readonly longestLineBytes?: number
}

/**
 * Applies one sealed segment in one transaction: its lines, and the fact that it was applied.
 * @returns the notices whose lines could not be loaded and are quarantined instead.
 * @throws FatalError if the file is damaged or from another log. Then nothing of it is applied.
 */
export async function applySegment(
  db: Database,
  segment: StagedSegment,
  projection: Projection,
): Promise<string[]> {
  try {
    await stageLines(db, segment, projection.temporaryDirectory)
    const lines = await countStagedLines(db, segment)
    await db.transaction(() => project(db, { ...segment, lines }, projection), 'applied.commit')
    return []
  } catch (error) {
    if (error instanceof FatalError) throw error
    // DuckDB reports the same error for a damaged file as for a record that it cannot load.
    const damage = await findDamage(segment.path)
    if (damage !== null) throw unusableSegment(segment.path, `is damaged: ${damage}`)
    if (!isDataError(error) && !isMemoryError(error)) throw error
    return await setAsidePoison(db, segment, {
      temporaryDirectory: projection.temporaryDirectory,
      count: first => countStagedLines(db, segment, first),
      project: () => projectLines(db, projection),
      finish: lines => markApplied(db, segment.number, lines),
      isDataError,
      cause: error,
    })
  } finally {
    await db.run(NO_LINES).catch(() => {})
  }
}

/** Returns whether DuckDB could not load a value, as opposed to a full disk or too little memory, which no record causes. */
function isDataError(error: unknown): boolean {
  return /^(Invalid Input|Conversion|Out of Range|Type Mismatch|Invalid Type|Serialization) Error|Malformed JSON/.test(
    error instanceof Error ? error.message : '',
  )
}

/** Turns the staged lines of one segment into rows, in the caller's transaction. */
async function project(
  db: Database,
  segment: { number: number; lines: number },
  projection: Projection,
): Promise<void> {
  await projectLines(db, projection)
  await markApplied(db, segment.number, segment.lines)
}

async function markApplied(db: Database, number: number, lines: number): Promise<void> {
  await db.run(SEGMENT_APPLIED, { segment: number, lines })
  await db.run(UP_TO, { segment: number })
  if (number === 1) await db.run(LOG_NAMED)
}

/** A record without an id is known by its hash. */
const SUBJECT = `coalesce('id ' || edital_id, 'hash ' || hash)`

/**
 * Gives each line of many segments its wave. Lines about different notices do not depend on each other, so they can be applied
 * in any order. Those about one notice can not: each wave has the lines of one segment about each notice, and of a second
 * one if the first lists the notice and the second has its analysis. Lines about no notice are in the first wave. The
 * rows for elements of analyses come once, after the last wave, because only those of each notice's last analysis stay.
 */
const IN_WAVES = [
  'ALTER TABLE staged ADD COLUMN wave INTEGER DEFAULT 1',
  `WITH steps AS (
    SELECT segment, ${SUBJECT} AS subject, bool_and(type = 'notice') AS is_list,
      count(*) = 1 AND bool_and(type IN ('analysis', 'analysis_same')) AS is_analysis
    FROM staged WHERE subject IS NOT NULL GROUP BY ALL),
  begun AS (
    SELECT segment, subject, NOT (is_analysis AND coalesce(lag(is_list) OVER one, false)) AS begins
    FROM steps WINDOW one AS (PARTITION BY subject ORDER BY segment)),
  numbered AS (
    SELECT segment, subject, sum(begins::INTEGER) OVER (PARTITION BY subject ORDER BY segment) AS wave FROM begun)
  UPDATE staged SET wave = n.wave FROM numbered n WHERE n.segment = staged.segment AND n.subject = ${SUBJECT}`,
]

/** The last analysis of each notice, if it was loaded: then it has a version. */
const LAST_ANALYSES = 0
const AS_LAST_ANALYSES = `UPDATE staged SET wave = ${LAST_ANALYSES} FROM (
    SELECT s.edital_id, max({'segment': s.segment, 'seq': s.seq}) AS last
    FROM staged s JOIN analysis_versions v ON v.edital_id = s.edital_id AND v.observed_at = s."at"
    WHERE s.type = 'analysis' GROUP BY s.edital_id) n
  WHERE staged.edital_id = n.edital_id AND staged.segment = n.last.segment AND staged.seq = n.last.seq`

/** Returns SQL for the lines of a wave, as a view: a copy would take as long as many of the statements that read it. */
function waveLines(wave: number): string {
  return `CREATE OR REPLACE TEMP VIEW lines AS SELECT * EXCLUDE (wave) FROM staged WHERE wave = ${wave}`
}

const SEGMENTS_APPLIED = 'INSERT INTO applied_segments SELECT segment, count(*) FROM staged GROUP BY segment'

/**
 * Applies sealed segments in one transaction, with the rows that they would give one by one: for a rebuild and to catch up,
 * because a statement takes a millisecond, however few lines it is for.
 * @param segments consecutive ones, whole, and not the first of the log.
 * @returns false if they must be applied one by one, because something in them is not as it should be. Then nothing is
 * applied.
 */
export async function applySegments(
  db: Database,
  segments: readonly SegmentFile[],
  projection: Projection,
): Promise<boolean> {
  try {
    if (!(await stageSegments(db, segments))) return false
    await countLines(db, 'staged', segments)
    if (await hasNewStatuses(db)) return false
    for (const sql of IN_WAVES) await db.run(sql)
    const last = segments.at(-1)?.number ?? 0
    await db.transaction(() => projectWaves(db, last, projection), 'applied.commit')
    return true
  } catch (error) {
    if (
      error instanceof FatalError ||
      isDataError(error) ||
      isMemoryError(error) ||
      error instanceof WrongLines
    )
      return false
    throw error
  } finally {
    await db.run('DROP VIEW IF EXISTS lines; DROP TABLE IF EXISTS staged').catch(() => {})
  }
}

async function projectWaves(db: Database, last: number, projection: Projection): Promise<void> {
  const { waves } = await db.row<{ waves: number }>('SELECT max(wave) AS waves FROM staged')
  for (let wave = 1; wave <= waves; wave += 1) {
    await db.run(waveLines(wave))
    await projectLines(db, projection, { elements: false })
  }
  await db.run(AS_LAST_ANALYSES)
  await db.run(waveLines(LAST_ANALYSES))
  await projectElements(db, projection)
  await db.run(SEGMENTS_APPLIED)
  await db.run(UP_TO, { segment: last })
}

/**
 * Returns whether ANALYSIS_STATUSES changes on the way, and with it which notices are excluded: then the order of all
 * lines matters.
 */
async function hasNewStatuses(db: Database): Promise<boolean> {
  const [other] = await db.rows(
    `SELECT 1 FROM staged l CROSS JOIN meta m
     WHERE l.type = 'run_started' AND l.analysis_statuses IS DISTINCT FROM m.analysis_statuses LIMIT 1`,
  )
  return other !== undefined
}

type Attempt = {
  readonly temporaryDirectory: string
  /** Counts the staged lines, which must be those of the segment from this one on. */
  readonly count: (first: number) => Promise<number>
  /** Applies the staged lines in the caller's transaction. */
  readonly project: () => Promise<void>
  /** Marks the segment as applied, while its first lines are staged. */
  readonly finish: (lines: number) => Promise<void>
  readonly isDataError: (error: unknown) => boolean
  /** Why the whole segment could not be applied. */
  readonly cause: unknown
}

/** Lines of a segment, by their index. */
type Batch = { readonly from: number; readonly to: number }

/**
 * Applies a segment that fails as a whole: halves what fails, until it can be applied or is a single line, and replaces that by
 * a `rejected` line. So one poison record can never block all later runs, and lines that need too much memory together are
 * applied apart.
 *
 * Each part is a transaction of its own: one for all would hold what every part needed. A segment is still applied as a whole
 * or not at all, because what was committed lasts only with the next checkpoint, and a run that could not apply a segment
 * makes none.
 * @returns the notices whose lines were quarantined.
 */
async function setAsidePoison(
  db: Database,
  segment: { number: number; path: string },
  attempt: Attempt,
): Promise<string[]> {
  const lines: string[] = []
  for await (const line of readLines(segment.path)) lines.push(line)
  const path = join(attempt.temporaryDirectory, `poison-${segment.number}.ndjson`)
  const setAside: string[] = []
  let halved = false

  async function stage({ from, to }: Batch): Promise<void> {
    const some = lines.slice(from, to)
    await writeNew(path, some.map(line => `${line}\n`).join(''))
    await stageShortened(db, { number: segment.number, path }, attempt.temporaryDirectory)
  }

  /** Applies a batch at once. @returns why it could not be applied. */
  async function applyAtOnce(batch: Batch): Promise<unknown> {
    const work = async () => {
      await attempt.project()
      if (batch.from === 0) await attempt.finish(lines.length)
    }
    try {
      await stage(batch)
      const count = await attempt.count(batch.from + 1)
      if (count !== batch.to - batch.from) throw attempt.cause
      await db.transaction(work, batch.to === lines.length ? 'applied.commit' : undefined)
      return null
    } catch (error) {
      if (error !== attempt.cause && isOfRecord(error)) return error
      throw error
    }
  }

  async function apply(batch: Batch): Promise<void> {
    const error = await applyAtOnce(batch)
    if (error === null) return
    const { from, to } = batch
    if (to - from > 1) {
      halved = true
      const middle = (from + to) >> 1
      await apply({ from, to: middle })
      await apply({ from: middle, to })
      return
    }
    const replacement = rejectedLine(lines[from] as string, composeReason(error))
    lines[from] = replacement.text
    setAside.push(replacement.editalId)
    if ((await applyAtOnce(batch)) !== null) throw attempt.cause
  }

  async function failsWithoutLines(): Promise<boolean> {
    try {
      await stage({ from: 0, to: 0 })
      await db.run('BEGIN TRANSACTION')
      await attempt.project()
      return false
    } catch (error) {
      if (isOfRecord(error)) return true
      throw error
    } finally {
      await db.run('ROLLBACK').catch(() => {})
    }
  }

  function isOfRecord(error: unknown): boolean {
    return attempt.isDataError(error) || isMemoryError(error)
  }

  try {
    // Then, or if every line loads alone, no record is at fault.
    if (await failsWithoutLines()) throw attempt.cause
    await apply({ from: 0, to: lines.length })
    if (halved && setAside.length === 0 && !isMemoryError(attempt.cause)) throw attempt.cause
    return setAside
  } finally {
    await remove('temporary.remove', path)
  }
}

/** Returns a reason that is the same in every rebuild, whatever memory was left. */
function composeReason(error: unknown): string {
  return isMemoryError(error) ? 'it needs more memory than there is' : withoutPlace(getMessage(error))
}

/** Removes the temporary file's path: a rebuild elsewhere must produce the same row. */
function withoutPlace(message: string): string {
  return message.replace(/ in file "[^"]*"(, in line \d+)?/g, '')
}

function rejectedLine(text: string, reason: string): { text: string; editalId: string } {
  const { seq, run_id, at, type, edital_id, ...rest } = JSON.parse(text) as Record<string, unknown>
  const document = JSON.stringify(rest[String(type)] ?? null)
  const line = {
    seq,
    run_id,
    at,
    type: 'rejected',
    edital_id,
    updated_at: rest.source_updated_at ?? rest.updated_at,
    kind: type,
    reason: `could not be loaded: ${reason}`.slice(0, 500),
    path: '$',
    hash: hashContent(document),
    excerpt: takeExcerpt(Buffer.from(document)),
  }
  return { text: JSON.stringify(line), editalId: String(edital_id) }
}
