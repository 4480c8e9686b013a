import type { CompanyPaths } from '#src/core/company/company.ts'
import {
  listSealedSegments,
  listSegmentNumbers,
  readBase,
  segmentPath,
  unsealedPath,
} from '#src/core/rawlog/files.ts'
import type { Standing, StoredSegments } from '#src/extras/extra.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { move, syncDirectory, syncFile } from '#src/lib/durable.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { digestFile, hashContent } from '#src/lib/hash.ts'
import type { ObjectStore, S3Settings, StoredObject } from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'

/**
 * The segments of a company's shared log. A segment is created only if it does not exist: so one writer wins each
 * number, whichever disk, host or clock the others have. The disk has copies.
 */

/** Segments that are requested from the store at once: one takes some 20 ms, and a year's log has 26,000. */
const AHEAD = 8

export type SharedPlace = {
  readonly store: ObjectStore
  readonly paths: Pick<CompanyPaths, 'company' | 'root' | 'raw'>
}

/** A log in the object store, for code that only reads what is there. */
type StoredLog = { readonly store: ObjectStore; readonly paths: Pick<CompanyPaths, 'company'> }

/** The log in the store cannot be used with this disk. */
export class UnusableLog extends FatalError {
  readonly what: string
  readonly mend: string

  /** @param what completes a sentence that begins with the log's place. @param mend what to do, without a full stop. */
  constructor(place: StoredLog, what: string, mend: string) {
    super(`${describePlace(place)} ${what}. ${mend}.`)
    this.what = what
    this.mend = mend
  }
}

export const RESTORE_IT = 'Restore it from a version or a backup of the bucket'

/** Called before each segment. */
export type OnSegment = (done: number, total: number) => void

type StoredSegment = { readonly number: number; readonly bytes: number }

const NAME = /\/(\d{9})\.ndjson\.zst$/
/** Compressed. A segment has at most 64 MB of lines (`src/core/pipeline/load.ts`), and its last line may be of maximum length. */
const MAX_SEGMENT_BYTES = 256 * 1024 * 1024
const COPIED_AT_ONCE = 8
/** Copied before they get their names on the disk. */
const BATCH = 64

export function directoryKey(company: string): string {
  return `${company}/log`
}

/** Returns the key of a segment. Its number has nine digits, so that segments are listed in order. */
function segmentKey(company: string, number: number): string {
  return `${directoryKey(company)}/${String(number).padStart(9, '0')}.ndjson.zst`
}

/**
 * Seals a segment.
 * @param path its file, complete and durable.
 * @throws FatalError (held) if another writer sealed that number.
 */
export async function sealSegment(
  { store, paths }: SharedPlace,
  number: number,
  path: string,
): Promise<void> {
  const { company } = paths
  const key = segmentKey(company, number)
  const file = await digestFile(path)
  if (await store.upload(key, { path, ...file })) return
  // The answer to our own upload may have been lost.
  if ((await hashAt(store, key)) === file.sha256) return
  throw new FatalError(
    `${company}: another worker has sealed segment ${number} of the raw log (${store.root}/${key}). This run ends, and what it had not sealed is dropped. The other worker continues.`,
    EXIT.held,
  )
}

/**
 * Copies the segments to the disk that only the store has.
 * @throws UnusableLog if the disk has other segments than the store.
 */
export async function copyLater(place: SharedPlace, onSegment: OnSegment): Promise<void> {
  const { raw } = place.paths
  const { segments: base } = await readBase(raw)
  const numbers = (await listSegmentNumbers(raw)).filter(number => number > base)
  const newest = numbers.at(-1)
  if (newest !== undefined) await assertSame(place, newest)
  // A power failure may have lost names in between: they are copied again.
  const gap = numbers.findIndex((number, index) => number !== base + index + 1)
  const last = base + (gap === -1 ? numbers.length : gap)
  await copySegments(place, await listSegmentsAfter(place, last), onSegment)
}

/** Copies these segments to the disk, in order: whatever ends it, the disk's log has no new gap. */
export async function copySegments(
  place: SharedPlace,
  segments: readonly StoredSegment[],
  onSegment: OnSegment,
): Promise<void> {
  const { raw } = place.paths
  for (let from = 0; from < segments.length; from += BATCH) {
    onSegment(from, segments.length)
    const batch = segments.slice(from, from + BATCH)
    const waiting = [...batch]
    await runConcurrently(COPIED_AT_ONCE, async stopped => {
      for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift())
        await copySegment(place, next.number)
    })
    for (const { number } of batch)
      await move('segment.rename', unsealedPath(raw, number), segmentPath(raw, number))
    await syncDirectory('segment.directory', raw)
  }
}

async function copySegment(place: SharedPlace, number: number): Promise<void> {
  const { store, paths } = place
  const part = unsealedPath(paths.raw, number)
  const key = segmentKey(paths.company, number)
  const copied = await store.copy(key, part, MAX_SEGMENT_BYTES)
  assertStored(place, number, copied && { ...copied, hash: copied.sha256 })
  await syncFile('segment.sync', part)
}

/**
 * Returns the bytes of a segment in the store.
 * @throws UnusableLog if it is missing or damaged.
 */
async function readStored(place: StoredLog, number: number): Promise<Buffer> {
  const { store, paths } = place
  const found = await store.get(segmentKey(paths.company, number), MAX_SEGMENT_BYTES)
  assertStored(place, number, found && { uploadedAs: found.sha256, hash: hashContent(found.bytes) })
  return (found as StoredObject).bytes
}

function assertStored(
  place: StoredLog,
  number: number,
  found: { readonly uploadedAs: string | null; readonly hash: string } | null,
): void {
  if (found === null) throw new UnusableLog(place, `has lost segment ${number}`, RESTORE_IT)
  if (found.uploadedAs !== null && found.uploadedAs !== found.hash)
    throw new UnusableLog(place, `has a damaged segment ${number}: it is not what was written`, RESTORE_IT)
}

/**
 * Copies the segments to the store that only the disk has: a log that began without LOG_URL.
 * @returns how many.
 * @throws UnusableLog if the store has another log.
 */
export async function pushSegments(place: SharedPlace, onSegment: OnSegment): Promise<number> {
  const { store, paths } = place
  const { company, raw } = paths
  const local = await listSealedSegments(raw)
  const { segments: base } = await readBase(raw)
  const there = await listSegmentsAfter(place, 0)
  const common = Math.min(local.length, there.length)
  if (common > base) await assertSame(place, common)
  const missing = local.slice(there.length)
  if (there.length < base) throw new UnusableLog(place, `lacks segment ${there.length + 1}`, RESTORE_IT)
  for (const [done, number] of missing.entries()) {
    onSegment(done, missing.length)
    const path = segmentPath(raw, number)
    if (!(await store.upload(segmentKey(company, number), { path, ...(await digestFile(path)) })))
      await assertSame(place, number)
  }
  return missing.length
}

/** Throws UnusableLog unless the store has this segment of the disk. */
async function assertSame(place: SharedPlace, number: number): Promise<void> {
  const { store, paths } = place
  const { raw, root, company } = paths
  const there = await hashAt(store, segmentKey(company, number))
  if (there === null)
    throw new UnusableLog(
      place,
      `lacks segment ${number}, which ${raw} has`,
      `If this log began without LOG_URL, copy it there with \`editais log push --company ${company}\``,
    )
  if (there === (await digestFile(segmentPath(raw, number))).sha256) return
  throw new UnusableLog(
    place,
    `and ${raw} have different segments ${number}: one of them was written to without the other`,
    `To continue with what the store has, move ${root} away, and the next run restores it from there; to continue with this disk, set LOG_URL to another place, and run \`editais log push --company ${company}\``,
  )
}

/**
 * Returns the segments in the store after this one, in order.
 * @throws UnusableLog if one is missing in between.
 */
export async function listSegmentsAfter(place: SharedPlace, last: number): Promise<StoredSegment[]> {
  const { store, paths } = place
  const { company } = paths
  const found: StoredSegment[] = []
  const after = last > 0 ? segmentKey(company, last) : undefined
  for await (const { key, bytes } of store.list(`${directoryKey(company)}/`, after)) {
    const number = Number(NAME.exec(key)?.[1] ?? 0)
    if (number > last) found.push({ number, bytes })
  }
  const missing = found.findIndex(({ number }, index) => number !== last + index + 1)
  if (missing === -1) return found
  throw new UnusableLog(place, `lacks segment ${last + missing + 1}, but has later ones`, RESTORE_IT)
}

/**
 * Compares every segment of this disk with the store's. Changes nothing.
 * @returns how many the store has.
 * @throws UnusableLog if one is missing there, or differs.
 */
export async function compareSegments(place: SharedPlace): Promise<number> {
  const there = await listSegmentsAfter(place, 0)
  for (const number of await listSegmentNumbers(place.paths.raw)) await assertSame(place, number)
  return there.length
}

/** Returns the size of the segments up to this one, as they are in the store. */
export async function countBytesUpTo({ store, paths }: StoredLog, last: number): Promise<number> {
  let sum = 0
  for await (const { key, bytes } of store.list(`${directoryKey(paths.company)}/`)) {
    const number = Number(NAME.exec(key)?.[1] ?? 0)
    if (number > last) break
    if (number > 0) sum += bytes
  }
  return sum
}

/**
 * Compares the log on this disk with the store's.
 * @param segment one that this disk has, after which the store may have more; by default its last one.
 */
export async function compareWithStore(place: SharedPlace, segment?: number): Promise<Standing> {
  const { store, paths } = place
  const { segments: base } = await readBase(paths.raw)
  const newest = (await listSegmentNumbers(paths.raw).catch(() => [])).at(-1) ?? 0
  if (newest > base) {
    const there = await hashAt(store, segmentKey(paths.company, newest))
    if (there !== (await digestFile(segmentPath(paths.raw, newest))).sha256) return 'other'
  }
  const last = Math.max(newest, base)
  return (await hasSegment(place, Math.min(segment ?? last, last) + 1)) ? 'later' : 'same'
}

/** Returns whether the store has a segment with this number. */
async function hasSegment({ store, paths }: SharedPlace, number: number): Promise<boolean> {
  return (await store.head(segmentKey(paths.company, number))) !== null
}

/** Returns the SHA-256 of a segment in the store; null if it is not there. */
export async function hashOfSegment(
  store: ObjectStore,
  company: string,
  number: number,
): Promise<string | null> {
  return await hashAt(store, segmentKey(company, number))
}

export function describePlace({ store, paths }: StoredLog): string {
  return `${store.root}/${directoryKey(paths.company)}`
}

/** Returns the SHA-256 of an object's content; null if it does not exist. */
async function hashAt(store: ObjectStore, key: string): Promise<string | null> {
  const found = await store.head(key)
  if (found === null || found.sha256 !== null) return found?.sha256 ?? null
  // A copy of a bucket may lack what was said about its objects.
  return (await store.copy(key, null, MAX_SEGMENT_BYTES))?.sha256 ?? null
}

export async function openStored(
  settings: S3Settings,
  company: string,
  last: number,
): Promise<StoredSegments> {
  const store = await openS3(settings)
  const place = { store, paths: { company } }
  const ahead = new Map<number, Promise<Buffer>>()
  return {
    hashSegment: number => hashOfSegment(store, company, number),
    async read(number) {
      for (let next = number; next <= Math.min(last, number + AHEAD); next += 1)
        if (!ahead.has(next)) ahead.set(next, begun(place, next))
      const content = ahead.get(number) as Promise<Buffer>
      ahead.delete(number)
      return await content
    },
    close: () => store.close(),
  }
}

/** Starts to read a segment. Its failure ends nothing by itself: a reader may end before it awaits it. */
function begun(place: StoredLog, number: number): Promise<Buffer> {
  const content = readStored(place, number)
  content.catch(() => {})
  return content
}
