import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { remove } from '#src/platform/durable.ts'
import { FatalError } from '#src/platform/errors.ts'

const SEGMENT_NAME = /^(\d{6,})\.ndjson\.zst$/
export const UNSEALED_SUFFIX = '.part'

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(6, '0')}.ndjson.zst`)
}

/** Where a segment grows until it is sealed. */
export function unsealedPath(directory: string, number: number): string {
  return segmentPath(directory, number) + UNSEALED_SUFFIX
}

/** Where what was damaged or not of this log is kept, once something stands in its place. */
export function damagedDirectory(directory: string): string {
  return join(directory, 'damaged')
}

/**
 * Numbers of the sealed segments, ascending. Throws FatalError when one is missing: what was derived
 * from a log with a hole could not be trusted.
 */
export async function sealedSegments(directory: string): Promise<number[]> {
  const numbers = await segmentNumbers(directory)
  const missing = numbers.findIndex((number, index) => number !== index + 1)
  if (missing === -1) return numbers
  throw unusableSegment(segmentPath(directory, missing + 1), 'is missing')
}

/** Numbers of the segments that are there, ascending; some may be missing. */
export async function segmentNumbers(directory: string): Promise<number[]> {
  return (await readdir(directory)).flatMap(name => numberOf(name) ?? []).sort((a, b) => a - b)
}

/** Null for what is no segment of a log: a copy under a name of its own is none. */
export function numberOf(name: string): number | null {
  const digits = SEGMENT_NAME.exec(name)?.[1]
  if (digits === undefined) return null
  const number = Number(digits)
  return number > 0 && basename(segmentPath('', number)) === name ? number : null
}

/** The ways out of a log that cannot be read to its end. */
export const WAYS_OUT =
  'Restore the file from a backup, or run `npm run rebuild -- --salvage` to keep what can be read'

/** @param what of it cannot be used, such as `is missing`. */
export function unusableSegment(path: string, what: string): FatalError {
  return new FatalError(`Segment ${path} of the raw log ${what}. ${WAYS_OUT}.`)
}

/** Removes what a killed run left unsealed: nothing was derived from it. */
export async function removeUnsealed(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.endsWith(UNSEALED_SUFFIX)) await remove('unsealed.remove', join(directory, name))
  }
}

export type RawLogSize = { readonly segments: number; readonly bytes: number }

/**
 * Of the sealed segments; bytes as they lie on the disk.
 * @param known of the first segments: only later ones are looked at, which of a year's log takes half a second.
 */
export async function rawLogSize(directory: string, known?: RawLogSize): Promise<RawLogSize> {
  const numbers = await sealedSegments(directory)
  const start = known && known.segments <= numbers.length ? known : { segments: 0, bytes: 0 }
  let bytes = start.bytes
  for (const number of numbers.slice(start.segments))
    bytes += (await stat(segmentPath(directory, number))).size
  return { segments: numbers.length, bytes }
}
