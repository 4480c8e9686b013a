import { damageOf } from '#src/core/rawlog/examine.ts'
import { unusableSegment } from '#src/core/rawlog/files.ts'
import { FatalError } from '#src/lib/errors.ts'
import { type Database, isMemoryError } from './database.ts'
import { setAsidePoison } from './poison.ts'
import { LOG_NAMED, type Projection, projectLines, SEGMENT_APPLIED, UP_TO } from './projection.ts'
import { countStagedLines, stageLines } from './staging.ts'

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
    const damage = await damageOf(segment.path)
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
    await db.run('DROP TABLE IF EXISTS lines; DELETE FROM whole_parts').catch(() => {})
  }
}

/** Returns whether DuckDB could not load a value, as opposed to a full disk or too little memory, which no record causes. */
export function isDataError(error: unknown): boolean {
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
