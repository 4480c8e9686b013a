import type { Line, LoggedDocument } from '#src/core/rawlog/line.ts'
import type { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { applySegment } from '#src/core/warehouse/apply.ts'
import { createRelief, type Warehouse } from '#src/core/warehouse/warehouse.ts'
import type { InStage } from './request.ts'

/**
 * A segment is sealed at the first of these bounds, so a crash loses at most that much. They also bound how
 * much of a segment DuckDB holds in memory, and how long the answers of a slow API stay unseen.
 */
const MAX_SEGMENT = { bytes: 64 * 1024 * 1024, documents: 3000, ageMs: 60_000 }
/** One segment being applied and one waiting, while the next is written. Beyond that, fetching waits. */
const MAX_SEGMENTS_WAITING = 2

/**
 * How much must have gathered before it is applied or written while analyses are fetched, so that little is left after the last one.
 * Each segment and each month costs some statements, in time in which a slow API leaves the CPU idle (docs/internals/bench.md).
 */
export type Pace = {
  /** Documents of a segment that is sealed because as many are still to come. */
  readonly documents: number
  /** Rows of months that seem complete. */
  readonly rows: number
  /** Of the latest so many analyses, none belongs to a month that seems complete. */
  readonly latest?: number
  /** Size of the rows in memory above which everything applied is made durable. */
  readonly unsavedBytes?: number
}

export const PACE: Pace = { documents: 256, rows: 5000 }

export type Loader = {
  /** Says how many analyses are to come: the last ones are applied in ever smaller segments. */
  expect(analyses: number): void
  /** Adds a line to the raw log. Resolves when there is room for more. */
  append(line: Line, document?: LoggedDocument): Promise<void>
  /** Seals the current segment. Resolves when every sealed segment is in the warehouse. */
  settle(): Promise<void>
  /** Resolves when nothing is being applied, whether it succeeded or failed. Then the warehouse may be closed. */
  idle(): Promise<void>
  /** Notices whose lines could not be loaded and were quarantined instead. */
  readonly poisoned: readonly string[]
}

/**
 * Moves lines into the warehouse: first durable in the log, then applied (invariant I6). While DuckDB
 * applies one segment, the next one fills.
 */
export function createLoader(
  options: Warehouse & {
    log: RawLogWriter
    onLoaded: (documents: number) => void
    /** Called after a segment that is not the last one, before the next is applied. */
    onApplied: () => Promise<void>
    inStage: InStage
    pace: Pick<Pace, 'documents' | 'unsavedBytes'>
  },
): Loader {
  const { log, db, rows, projection, inStage, pace } = options
  const relieve = createRelief({ db, rows }, pace.unsavedBytes)
  const poisoned: string[] = []
  let applied: Promise<void> = Promise.resolve()
  let waiting = 0
  let toCome = Number.POSITIVE_INFINITY

  /** @param more whether more is to come at once. */
  function rotate({ more }: { more: boolean }): void {
    const { documents } = log.unsealed
    const sealed = log.seal()
    sealed.catch(() => {})
    waiting += 1
    applied = applied.then(async () => {
      const segment = await sealed
      if (segment) {
        await inStage('load', async () => {
          poisoned.push(...(await applySegment(db, segment, projection)))
          if (!more) return
          await options.onApplied()
          await relieve()
        })
      }
      waiting -= 1
      options.onLoaded(documents)
    })
    // A failure stays in the chain. The next `append` or `settle` that waits for it throws it.
    applied.catch(() => {})
  }

  return {
    poisoned,
    expect(analyses) {
      toCome = analyses
    },
    async append(line, document) {
      toCome -= 1
      await log.append(line, document)
      const { bytes, documents, ageMs } = log.unsealed
      const enough = Math.min(MAX_SEGMENT.documents, Math.max(pace.documents, toCome))
      if (bytes < MAX_SEGMENT.bytes && documents < enough && ageMs < MAX_SEGMENT.ageMs) return
      if (waiting >= MAX_SEGMENTS_WAITING) await applied
      // Another caller that waited too may have rotated already.
      else rotate({ more: line.type !== 'run_finished' })
    },
    async settle() {
      rotate({ more: false })
      await applied
    },
    idle: () => applied.catch(() => {}),
  }
}
