import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { remove } from '#src/platform/durable.ts'
import { FatalError } from '#src/platform/errors.ts'

const SEGMENT_NAME = /^(\d{6,})\.ndjson\.zst$/
export const UNSEALED_SUFFIX = '.part'

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(6, '0')}.ndjson.zst`)
}

/** Where a segment is written until it is sealed. */
export function unsealedPath(directory: string, number: number): string {
  return segmentPath(directory, number) + UNSEALED_SUFFIX
}

/** Where damaged and foreign segments are kept after they were replaced. */
export function damagedDirectory(directory: string): string {
  return join(directory, 'damaged')
}

/**
 * Numbers of the sealed segments, ascending. Throws FatalError if one is missing, because data derived from a
 * log with a gap could not be trusted.
 */
export async function sealedSegments(directory: string): Promise<number[]> {
  const numbers = await segmentNumbers(directory)
  const missing = numbers.findIndex((number, index) => number !== index + 1)
  if (missing === -1) return numbers
  throw unusableSegment(segmentPath(directory, missing + 1), 'is missing')
}

/** Numbers of the existing segments, ascending; some may be missing. */
export async function segmentNumbers(directory: string): Promise<number[]> {
  return (await readdir(directory)).flatMap(name => numberOf(name) ?? []).sort((a, b) => a - b)
}

/** Null for a file that is not a segment, such as a renamed copy. */
export function numberOf(name: string): number | null {
  const digits = SEGMENT_NAME.exec(name)?.[1]
  if (digits === undefined) return null
  const number = Number(digits)
  return number > 0 && basename(segmentPath('', number)) === name ? number : null
}

/** What to do about a log that cannot be read completely. */
export const WAYS_OUT =
  'Restore the file from a backup, or run `npm run rebuild -- --salvage` to keep what can be read'

/** @param what is wrong with it, such as `is missing`. */
export function unusableSegment(path: string, what: string): FatalError {
  return new FatalError(`Segment ${path} of the raw log ${what}. ${WAYS_OUT}.`)
}

/** Removes segments that a killed run left unsealed; nothing was derived from them. */
export async function removeUnsealed(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (name.endsWith(UNSEALED_SUFFIX)) await remove('unsealed.remove', join(directory, name))
  }
}

export type RawLogSize = { readonly segments: number; readonly bytes: number }

/**
 * Size of the sealed segments, in bytes on disk.
 * @param known the size of the first segments, so that only later ones are checked; a year's log takes half a second.
 */
export async function rawLogSize(directory: string, known?: RawLogSize): Promise<RawLogSize> {
  const numbers = await sealedSegments(directory)
  const start = known && known.segments <= numbers.length ? known : { segments: 0, bytes: 0 }
  let bytes = start.bytes
  for (const number of numbers.slice(start.segments))
    bytes += (await stat(segmentPath(directory, number))).size
  return { segments: numbers.length, bytes }
}
