import { readFile, rename, rm } from 'node:fs/promises'
import { z } from 'zod'
import { formatCount } from '#src/lib/count.ts'
import { writeNew } from '#src/lib/durable.ts'
import type { CompanyPaths } from './company.ts'

const failure = z.object({ at: z.string(), since: z.string(), times: z.number(), reason: z.string() })

/**
 * Runs that left no report because they could not start, died or hung, since the last run that finished or loaded
 * something. Stored beside that run's state, for `status` and metrics. Times are ISO.
 */
export type Failure = {
  readonly at: string
  /** When the first of these runs failed. */
  readonly since: string
  readonly times: number
  /** Reason of the latest failure. */
  readonly reason: string
}

/** Returns null if the last run finished, or if the file is invalid. */
export async function readFailure({ failure: path }: Pick<CompanyPaths, 'failure'>): Promise<Failure | null> {
  try {
    return failure.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Records one more failure, atomically. Throws if nothing can be written. */
export async function noteFailure(paths: CompanyPaths, reason: string, now: Date): Promise<void> {
  const before = await readFailure(paths)
  const at = now.toISOString()
  const noted: Failure = { at, since: before?.since ?? at, times: (before?.times ?? 0) + 1, reason }
  await writeNew(`${paths.failure}.part`, `${JSON.stringify(noted)}\n`)
  await rename(`${paths.failure}.part`, paths.failure)
}

/** Removes the record of a failure. Call it when a run finished, or loaded something, and left a report. */
export async function forgetFailure({ failure: path }: CompanyPaths): Promise<void> {
  await rm(path, { force: true })
}

/** Describes a failure for display: when it failed, how often, and why. */
export function describeFailure({ at, since, times, reason }: Failure): string {
  const often = times > 1 ? `, ${formatCount(times)} times since ${since}` : ''
  return `failed at ${at}${often}: ${reason}`
}
