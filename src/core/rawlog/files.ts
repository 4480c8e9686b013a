import { createReadStream } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import zlib from 'node:zlib'
import { move, remove, syncDirectory, syncPath, writeNew } from '#src/lib/durable.ts'
import { FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { streamLines } from '#src/lib/lines.ts'

const SEGMENT_NAME = /^(\d{6,})\.ndjson\.zst$/
export const UNSEALED_SUFFIX = '.part'

export function segmentPath(directory: string, number: number): string {
  return join(directory, `${String(number).padStart(6, '0')}.ndjson.zst`)
}

/** Returns where a segment is written until it is sealed. */
export function unsealedPath(directory: string, number: number): string {
  return segmentPath(directory, number) + UNSEALED_SUFFIX
}

/** Returns where damaged and foreign segments are kept after they were replaced. */
export function damagedDirectory(directory: string): string {
  return join(directory, 'damaged')
}

/**
 * Numbers of the sealed segments, ascending. Those that only the shared log has count as well. Throws FatalError if
 * one is missing, because data derived from a log with a gap could not be trusted.
 */
export async function listSealedSegments(directory: string): Promise<number[]> {
  const { segments } = await readBase(directory)
  const numbers = (await listSegmentNumbers(directory)).filter(number => number > segments)
  const missing = numbers.findIndex((number, index) => number !== segments + index + 1)
  if (missing !== -1) throw unusableSegment(segmentPath(directory, segments + missing + 1), 'is missing')
  return [...Array.from({ length: segments }, (_, index) => index + 1), ...numbers]
}

/** The first segments of a log, which need not be on this disk, because it was restored from a checkpoint. */
type LogBase = RawLogSize

const NO_BASE: LogBase = { segments: 0, bytes: 0 }

/** Reads the base of the log. @throws FatalError if its file cannot be read: without it, the log has a gap. */
export async function readBase(directory: string): Promise<LogBase> {
  const path = basePath(directory)
  try {
    const { segments, bytes } = JSON.parse(await readFile(path, 'utf8')) as LogBase
    return { segments, bytes }
  } catch (error) {
    if (findSystemCode(error) === 'ENOENT') return NO_BASE
    throw new FatalError(`${path} cannot be used: ${getMessage(error)}. Remove it, then run again.`)
  }
}

/** Writes the base of the log. @param base null if the whole log is on this disk. */
export async function writeBase(directory: string, base: LogBase | null): Promise<void> {
  const path = basePath(directory)
  if (base === null) await remove('base.remove', path)
  else {
    const part = join(directory, 'base.part')
    await writeNew(part, `${JSON.stringify(base)}\n`)
    await syncPath(part)
    await move('base.rename', part, path)
  }
  await syncDirectory('base.directory', directory)
}

export const BASE_FILE = 'base.json'

function basePath(directory: string): string {
  return join(directory, BASE_FILE)
}

/** Numbers of the existing segments, ascending; some may be missing. */
export async function listSegmentNumbers(directory: string): Promise<number[]> {
  return (await readdir(directory)).flatMap(name => parseNumber(name) ?? []).sort((a, b) => a - b)
}

/** Returns null for a file that is not a segment, such as a renamed copy. */
function parseNumber(name: string): number | null {
  const digits = SEGMENT_NAME.exec(name)?.[1]
  if (digits === undefined) return null
  const number = Number(digits)
  return number > 0 && basename(segmentPath('', number)) === name ? number : null
}

/** The remedies for a log that cannot be read completely. */
export const WAYS_OUT =
  'Restore the file from a backup, or run `editais rebuild --salvage` to keep what can be read (with LOG_URL: move the company’s directory away and run `editais restore`)'

/** Makes the error for a segment that cannot be used. @param what is wrong with it, such as `is missing`. */
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
 * Returns the size of the sealed segments, in bytes on disk.
 * @param known the size of the first segments, so that only later ones are checked; a year's log takes half a second.
 */
export async function measureRawLog(directory: string, known?: RawLogSize): Promise<RawLogSize> {
  const numbers = await listSealedSegments(directory)
  const base = await readBase(directory)
  const start = known && known.segments >= base.segments && known.segments <= numbers.length ? known : base
  let bytes = start.bytes
  for (const number of numbers.slice(start.segments))
    bytes += (await stat(segmentPath(directory, number))).size
  return { segments: numbers.length, bytes }
}

/** Returns the lines of a sealed segment as text, in order. Rejects if the segment cannot be decompressed. */
export async function* readLines(path: string): AsyncGenerator<string> {
  const compressed = createReadStream(path)
  const text = compressed.pipe(zlib.createZstdDecompress())
  compressed.on('error', error => text.destroy(error))
  try {
    yield* streamLines(text)
  } finally {
    // Even if the reader stops early.
    compressed.destroy()
  }
}
