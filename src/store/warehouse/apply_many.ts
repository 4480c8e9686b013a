import { FatalError } from '#src/platform/errors.ts'
import { isDataError } from './apply.ts'
import type { Database } from './database.ts'
import { type Projection, projectLines, UP_TO } from './projection.ts'
import { countLines, type SegmentFile, stageSegments, WrongLines } from './staging.ts'

/**
 * Applies many small segments at once, for a rebuild and to catch up: a statement takes a millisecond, however few lines
 * it is for.
 *
 * Lines about different notices do not depend on each other, so they can be applied in any order. Those about one
 * notice can not: each wave has the lines of one segment about each notice, and of a second one if the first lists the
 * notice and the second has its analysis. Lines about no notice are in the first wave.
 */

/** A record without an id is known by its hash. */
const SUBJECT = `coalesce('id ' || edital_id, 'hash ' || hash)`

const IN_WAVES = `CREATE OR REPLACE TEMP TABLE waves AS
  WITH steps AS (
    SELECT segment, ${SUBJECT} AS subject, bool_and(type = 'notice') AS is_list,
      count(*) = 1 AND bool_and(type IN ('analysis', 'analysis_same')) AS is_analysis
    FROM staged WHERE subject IS NOT NULL GROUP BY ALL),
  begun AS (
    SELECT segment, subject, NOT (is_analysis AND coalesce(lag(is_list) OVER one, false)) AS begins
    FROM steps WINDOW one AS (PARTITION BY subject ORDER BY segment)),
  numbered AS (
    SELECT segment, subject, sum(begins::INTEGER) OVER (PARTITION BY subject ORDER BY segment) AS wave FROM begun)
  SELECT s.rowid AS line, coalesce(n.wave, 1)::INTEGER AS wave
  FROM staged s LEFT JOIN numbered n ON n.segment = s.segment AND n.subject = ${SUBJECT}`

const WAVE = `CREATE OR REPLACE TEMP TABLE lines AS
  SELECT s.* FROM staged s JOIN waves w ON w.line = s.rowid WHERE w.wave = $wave`

const SEGMENTS_APPLIED = 'INSERT INTO applied_segments SELECT segment, count(*) FROM staged GROUP BY segment'

/**
 * Applies sealed segments in one transaction, with the rows that they would give one by one.
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
    await stageSegments(db, segments)
    await countLines(db, 'staged', segments)
    if (await hasNewStatuses(db)) return false
    await db.run(IN_WAVES)
    const last = segments.at(-1)?.number ?? 0
    await db.transaction(() => projectWaves(db, last, projection), 'applied.commit')
    return true
  } catch (error) {
    if (error instanceof FatalError || isDataError(error) || error instanceof WrongLines) return false
    throw error
  } finally {
    await db
      .run('DROP TABLE IF EXISTS lines; DROP TABLE IF EXISTS waves; DROP TABLE IF EXISTS staged')
      .catch(() => {})
  }
}

async function projectWaves(db: Database, last: number, projection: Projection): Promise<void> {
  const { waves } = await db.row<{ waves: number }>('SELECT max(wave) AS waves FROM waves')
  for (let wave = 1; wave <= waves; wave += 1) {
    await db.run(WAVE, { wave })
    await projectLines(db, projection)
  }
  await db.run(SEGMENTS_APPLIED)
  await db.run(UP_TO, { segment: last })
}

/** Which notices are excluded changes with a run's ANALYSIS_STATUSES: then the order of all lines matters. */
async function hasNewStatuses(db: Database): Promise<boolean> {
  const [other] = await db.rows(
    `SELECT 1 FROM staged l CROSS JOIN meta m
     WHERE l.type = 'run_started' AND l.analysis_statuses IS DISTINCT FROM m.analysis_statuses LIMIT 1`,
  )
  return other !== undefined
}
