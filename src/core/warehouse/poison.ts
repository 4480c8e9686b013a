import { join } from 'node:path'
import { readLines } from '#src/core/rawlog/files.ts'
import { excerptOf } from '#src/core/rawlog/line.ts'
import { remove, writeNew } from '#src/lib/durable.ts'
import { messageOf } from '#src/lib/errors.ts'
import { hashOf } from '#src/lib/hash.ts'
import { type Database, isMemoryError } from './database.ts'
import { stageShortened } from './staging.ts'

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
 * or not at all, because what was committed lasts only with the checkpoint at the end of a run, and a run that could not
 * apply a segment makes none.
 * @returns the notices whose lines were quarantined.
 */
export async function setAsidePoison(
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
    const replacement = rejectedLine(lines[from] as string, reasonOf(error))
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
function reasonOf(error: unknown): string {
  return isMemoryError(error) ? 'it needs more memory than there is' : withoutPlace(messageOf(error))
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
    hash: hashOf(document),
    excerpt: excerptOf(Buffer.from(document)),
  }
  return { text: JSON.stringify(line), editalId: String(edital_id) }
}
