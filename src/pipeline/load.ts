import type { Document, Line } from '#src/store/rawlog/line.ts'
import type { RawLogWriter } from '#src/store/rawlog/writer.ts'
import { applySegment, type Projection } from '#src/store/warehouse/apply.ts'
import type { Database } from '#src/store/warehouse/database.ts'

/**
 * A segment is sealed at the first of these bounds: what a crash can cost is one of them. They also
 * bound what DuckDB holds of a segment in memory, and how long a slow API's answers stay unseen.
 */
const MAX_SEGMENT = { bytes: 64 * 1024 * 1024, documents: 3000, ageMs: 60_000 }
/** One being applied and one waiting for it, while the next is written; then fetching waits. */
const MAX_SEGMENTS_WAITING = 2

export type Loader = {
  /** Adds a line to the raw log; resolves when there is room for more. */
  append(line: Line, document?: Document): Promise<void>
  /** Seals what there is, and resolves when every sealed segment is in the warehouse. */
  settle(): Promise<void>
  /** Resolves when nothing is being applied any more, well or not: the warehouse may be closed. */
  idle(): Promise<void>
  /** Notices whose line no statement could load; they were quarantined instead. */
  readonly poisoned: readonly string[]
}

/**
 * The way from a line to the warehouse's rows: durable first, derived after (invariant I6). While DuckDB
 * applies one segment, the next one fills.
 */
export function createLoader(options: {
  log: RawLogWriter
  db: Database
  projection: Projection
  onLoaded: (documents: number) => void
}): Loader {
  const { log, db, projection } = options
  const poisoned: string[] = []
  let applied: Promise<void> = Promise.resolve()
  let waiting = 0

  function rotate(): void {
    const { documents } = log.unsealed
    const sealed = log.seal()
    sealed.catch(() => {})
    waiting += 1
    applied = applied.then(async () => {
      const segment = await sealed
      if (segment) poisoned.push(...(await applySegment(db, segment, projection)))
      waiting -= 1
      options.onLoaded(documents)
    })
    // A failure stays in the chain and is met by the next `append` or `settle` that waits for it.
    applied.catch(() => {})
  }

  return {
    poisoned,
    async append(line, document) {
      await log.append(line, document)
      const { bytes, documents, ageMs } = log.unsealed
      if (bytes < MAX_SEGMENT.bytes && documents < MAX_SEGMENT.documents && ageMs < MAX_SEGMENT.ageMs) return
      if (waiting >= MAX_SEGMENTS_WAITING) await applied
      // Whoever waited with us may have rotated already.
      else rotate()
    },
    async settle() {
      rotate()
      await applied
    },
    idle: () => applied.catch(() => {}),
  }
}
