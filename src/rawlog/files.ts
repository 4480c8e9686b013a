import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { remove } from '#src/durable.ts'
import { FatalError } from '#src/errors.ts'

const SEGMENT_NAME = /^(\d{6,})\.ndjson\.zst$/
const UNSEALED_SUFFIX = '.part'

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(6, '0')}.ndjson.zst`)
}

/** Where a segment grows until it is sealed. */
export function unsealedPath(directory: string, number: number): string {
  return segmentPath(directory, number) + UNSEALED_SUFFIX
}

/**
 * Numbers of the sealed segments, ascending. Throws FatalError when one is missing: what was derived
 * from a log with a hole could not be trusted.
 */
export async function sealedSegments(directory: string): Promise<number[]> {
  const names = await readdir(directory)
  const numbers = names
    .flatMap(name => SEGMENT_NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
  const missing = numbers.findIndex((number, index) => number !== index + 1)
  if (missing === -1) return numbers
  throw new FatalError(
    `Segment ${segmentPath(directory, missing + 1)} of the raw log is missing. Put it back from a backup; without it the warehouse cannot be rebuilt truthfully.`,
  )
}

/** Removes what a killed run left unsealed: nothing was derived from it. */
export async function removeUnsealed(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.endsWith(UNSEALED_SUFFIX)) await remove('unsealed.remove', join(directory, name))
  }
}

/** Of the sealed segments; bytes as they lie on the disk. */
export async function rawLogSize(directory: string): Promise<{ segments: number; bytes: number }> {
  const numbers = await sealedSegments(directory)
  let bytes = 0
  for (const number of numbers) bytes += (await stat(segmentPath(directory, number))).size
  return { segments: numbers.length, bytes }
}
