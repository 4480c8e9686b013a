import { join } from 'node:path'
import { remove, writeNew } from '#src/platform/durable.ts'
import { messageOf } from '#src/platform/errors.ts'
import { hashOf } from '#src/platform/hash.ts'
import { excerptOf } from '#src/store/rawlog/line.ts'
import { readLines } from '#src/store/rawlog/read.ts'
import type { Database } from './database.ts'
import { stageLines } from './staging.ts'

type Attempt = {
  readonly temporaryDirectory: string
  /** Counts the staged lines, which must be those of the segment. */
  readonly count: () => Promise<number>
  /** Applies the staged lines in the caller's transaction. */
  readonly project: (lines: number) => Promise<void>
  readonly isDataError: (error: unknown) => boolean
  /** Why the whole segment could not be applied. */
  readonly cause: unknown
}

/**
 * Applies a segment that fails as a whole: finds the faulty lines by bisection, replaces each with a `rejected`
 * line, and applies the result. So one poison record can never block all later runs.
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
  const stage = async (some: readonly string[]) => {
    await writeNew(path, some.map(line => `${line}\n`).join(''))
    await stageLines(db, { number: segment.number, path })
  }

  async function failure(from: number, to: number): Promise<unknown> {
    try {
      await stage(lines.slice(from, to))
      await db.run('BEGIN TRANSACTION')
      await attempt.project(0)
      return null
    } catch (error) {
      if (!attempt.isDataError(error)) throw error
      return error
    } finally {
      await db.run('ROLLBACK').catch(() => {})
    }
  }

  async function culprits(from: number, to: number): Promise<Map<number, unknown>> {
    const error = await failure(from, to)
    if (error === null) return new Map()
    if (to - from === 1) return new Map([[from, error]])
    const middle = (from + to) >> 1
    return new Map([...(await culprits(from, middle)), ...(await culprits(middle, to))])
  }

  try {
    // If it fails even without lines, or every line loads alone, no record is at fault.
    if ((await failure(0, 0)) !== null) throw attempt.cause
    const poison = await culprits(0, lines.length)
    if (poison.size === 0) throw attempt.cause
    const set = [...poison].map(([index, error]) => {
      const replacement = rejectedLine(lines[index] as string, withoutPlace(messageOf(error)))
      lines[index] = replacement.text
      return replacement.editalId
    })
    await stage(lines)
    const count = await attempt.count()
    await db.transaction(() => attempt.project(count), 'applied.commit')
    return set
  } finally {
    await remove('temporary.remove', path)
  }
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
