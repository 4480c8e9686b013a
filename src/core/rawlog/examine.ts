import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { formatCount } from '#src/lib/count.ts'
import { FatalError, findSystemCode } from '#src/lib/errors.ts'
import { splitLines } from '#src/lib/lines.ts'
import { BASE_FILE, listSegmentNumbers, readBase, segmentPath, unusableSegment } from './files.ts'
import { isKnownType, type ReadLine, readLine } from './line.ts'

const decompress = promisify(zlib.zstdDecompress)

const MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
const CHECKSUM_BYTES = 4
/** The most that a block of a frame can hold (RFC 8878, 3.1.1.2.4). */
const MAX_BLOCK_BYTES = 128 * 1024
/** A frame is a block of lines (`writer.ts`); its last line may have the maximum length. */
const MAX_FRAME_BYTES = 192 * 1024 * 1024

/**
 * Returns the readable parts of a segment: frames with a correct checksum, decompressed, and what is wrong with the bytes
 * between them. The writer starts each frame with a new line.
 */
export async function* readFrames(bytes: Buffer): AsyncGenerator<{ text: Buffer } | { damage: string }> {
  if (bytes.length === 0) yield { damage: 'it is empty' }
  for (let start = 0; start < bytes.length; ) {
    const end = frameAt(bytes, start)?.end ?? null
    const text = end === null ? null : await decompressed(bytes.subarray(start, end))
    if (end !== null && text !== null) {
      yield { text }
      start = end
      continue
    }
    yield { damage: damageAt(bytes, start, end) }
    const next = bytes.indexOf(MAGIC, start + 1)
    start = next === -1 ? bytes.length : next
  }
}

/**
 * Checks that the bytes are whole frames from first to last, without decompressing them. DuckDB does not notice a
 * truncated file.
 * @returns what is wrong, or the most bytes that they hold.
 */
function measureFrames(bytes: Buffer): { readonly damage: string } | { readonly mostBytes: number } {
  if (bytes.length === 0) return { damage: 'it is empty' }
  let mostBytes = 0
  for (let start = 0; start < bytes.length; ) {
    const frame = frameAt(bytes, start)
    if (frame === null) return { damage: damageAt(bytes, start, null) }
    start = frame.end
    mostBytes += frame.blocks * MAX_BLOCK_BYTES
  }
  return { mostBytes }
}

function damageAt(bytes: Buffer, start: number, end: number | null): string {
  if (end !== null) return `bytes ${start} to ${end} are corrupted`
  return bytes.subarray(start, start + MAGIC.length).equals(MAGIC)
    ? `it is truncated: the frame at byte ${start} has no end`
    : `bytes from ${start} on are corrupted`
}

async function decompressed(frame: Buffer): Promise<Buffer | null> {
  return await decompress(frame, { maxOutputLength: MAX_FRAME_BYTES }).catch(() => null)
}

/** Returns the frame at `start` (RFC 8878, 3.1.1); null if no whole frame begins there. */
function frameAt(bytes: Buffer, start: number): { readonly end: number; readonly blocks: number } | null {
  if (!bytes.subarray(start, start + MAGIC.length).equals(MAGIC)) return null
  const descriptor = bytes[start + MAGIC.length]
  if (descriptor === undefined) return null
  const single = (descriptor >> 5) & 1
  const sizeBytes = [single, 2, 4, 8][descriptor >> 6] as number
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number
  let at = start + MAGIC.length + 1 + (1 - single) + dictionaryBytes + sizeBytes
  let blocks = 0
  for (let last = 0; last === 0; ) {
    blocks += 1
    if (at + 3 > bytes.length) return null
    const header = bytes.readUIntLE(at, 3)
    last = header & 1
    const kind = (header >> 1) & 3
    if (kind === 3) return null
    // An RLE block stores a single byte; the header has its repeat count.
    at += 3 + (kind === 1 ? 1 : header >> 3)
  }
  if ((descriptor >> 2) & 1) at += CHECKSUM_BYTES
  return at <= bytes.length ? { end: at, blocks } : null
}

/** The content of the readable lines of one segment. */
type Contents = {
  /** Usable lines by type. */
  readonly kinds: ReadonlyMap<string, number>
  /** The runs that wrote them, each with the time of its first line here. */
  readonly runs: ReadonlyMap<string, string>
  /** The runs that begin here. */
  readonly begun: ReadonlySet<string>
  readonly firstRun: string | null
  /** Which log the lines claim to belong to. */
  readonly claims: {
    readonly numbers: ReadonlySet<number>
    readonly companies: ReadonlySet<string>
    readonly logs: ReadonlySet<string>
  }
  /** The damage of the rest, or null. */
  readonly damage: string | null
}

export type Examined = {
  readonly number: number
  readonly path: string
  readonly state: 'whole' | 'missing' | 'damaged' | 'foreign'
  /** Why it is not whole, as a predicate with the segment as subject; null if it is whole. */
  readonly why: string | null
  readonly contents: Contents
  /** Runs that continue here but whose start was lost, in an earlier segment or in a part of this one. */
  readonly unexplained: ReadonlyMap<string, string>
}

const NOTHING: Contents = {
  kinds: new Map(),
  runs: new Map(),
  begun: new Set(),
  firstRun: null,
  damage: null,
  claims: { numbers: new Set(), companies: new Set(), logs: new Set() },
}

/** With a larger gap than this, the log is not damaged but contains a stray file. */
const MAX_MISSING = 1000

/** Returns the first file whose number is too far from the previous ones to belong to this log, or null. */
export async function findStraySegment(directory: string): Promise<{ path: string; why: string } | null> {
  return strayAmong(directory, await numbersAfterBase(directory))
}

/** Segments up to the log's base need not be on this disk, and those that are there come first in the shared log. */
async function numbersAfterBase(directory: string): Promise<{ base: number; numbers: number[] }> {
  const { segments: base } = await readBase(directory)
  return { base, numbers: (await listSegmentNumbers(directory)).filter(number => number > base) }
}

function strayAmong(
  directory: string,
  { base, numbers }: { readonly base: number; readonly numbers: readonly number[] },
): { path: string; why: string } | null {
  const gapBefore = (number: number, index: number) => number - 1 - index - base
  const index = numbers.findIndex((number, before) => gapBefore(number, before) > MAX_MISSING)
  const number = numbers[index]
  if (number === undefined) return null
  const why = `cannot belong to this log: ${formatCount(gapBefore(number, index))} segments are missing before it`
  return { path: segmentPath(directory, number), why }
}

/**
 * Reads the log, as far as it is on this disk, and judges whether each segment, up to the last existing one, can be used.
 * @param options.onSegment called before each segment.
 * @throws FatalError if a stray file would make it endless.
 */
export async function examineLog(options: {
  directory: string
  onSegment?: (done: number, total: number) => void
}): Promise<Examined[]> {
  const { directory, onSegment } = options
  const { base, numbers } = await numbersAfterBase(directory)
  const stray = strayAmong(directory, { base, numbers })
  if (stray !== null) throw new FatalError(`${stray.path} ${stray.why}. Move it away and run again.`)
  const present = new Set(numbers)
  const total = numbers.at(-1) ?? base
  const all: { number: number; path: string; contents: Contents | null }[] = []
  for (let number = base + 1; number <= total; number += 1) {
    onSegment?.(number - 1 - base, total - base)
    const path = segmentPath(directory, number)
    const contents = present.has(number) ? await readContents(path) : null
    all.push({ number, path, contents: number === 1 && contents ? namingItself(contents) : contents })
  }
  const log = findLog(all.map(({ contents }) => contents))
  const known = new Set<string>()
  const strange = new Set<string>()
  let isLost = false
  return all.map(({ number, path, contents }) => {
    const { isStrange, ...judged } = judge({ number, path, contents, log, known, strange, isLost })
    const runs = judged.state === 'foreign' ? (isStrange ? strange : null) : known
    for (const run of judged.contents.runs.keys()) runs?.add(run)
    // A run's segments are consecutive, so only the next segment can continue a run lost here.
    isLost = judged.state !== 'whole'
    return judged
  })
}

function judge(about: {
  number: number
  path: string
  contents: Contents | null
  log: string | null
  known: ReadonlySet<string>
  /** Runs that earlier segments showed to be of another log. */
  strange: ReadonlySet<string>
  isLost: boolean
}): Examined & { isStrange: boolean } {
  const { number, path, contents, known, strange } = about
  const nothing = { number, path, unexplained: new Map<string, string>(), isStrange: false }
  if (contents === null) return { ...nothing, state: 'missing', why: 'is missing', contents: NOTHING }
  const unexplained = new Map(
    [...contents.runs].filter(([run]) => !known.has(run) && !contents.begun.has(run)),
  )
  const isLost = about.isLost || contents.damage !== null
  const unknownRun = [...unexplained.keys()].find(run => !isLost || strange.has(run)) ?? null
  const otherLog = about.log === null ? null : other(contents.claims.logs, about.log)
  const otherNumber = other(contents.claims.numbers, number)
  const company = [...contents.claims.companies][0] ?? null
  const foreign = explainForeignness({ number, company, otherNumber, otherLog, unknownRun })
  // A segment that is only misplaced may be from one of our runs.
  const isStrange = otherLog !== null || (otherNumber === null && unknownRun !== null)
  if (foreign !== null) return { ...nothing, state: 'foreign', why: foreign, contents, isStrange }
  const state = contents.damage === null ? 'whole' : 'damaged'
  const why = contents.damage === null ? null : `is damaged: ${contents.damage}`
  return { number, path, state, why, contents, unexplained, isStrange }
}

function other<T>(claimed: ReadonlySet<T>, own: T): T | null {
  return [...claimed].find(one => one !== own) ?? null
}

/** Explains why a segment belongs to another log, or elsewhere in this one; null if nothing shows that. */
export function explainForeignness(signs: {
  readonly number: number
  /** The company that it was written for. Not a sign by itself, because a company may have been renamed. */
  readonly company: string | null
  readonly otherNumber: number | null
  readonly otherLog: string | null
  readonly unknownRun: string | null
}): string | null {
  const { number, company, otherNumber, otherLog, unknownRun } = signs
  const whose = company === null ? '' : ` of ${company}`
  if (otherLog !== null) return `belongs to another log${whose}, which began with run ${otherLog}`
  if (otherNumber !== null) return `is misplaced: it was written as number ${otherNumber}, not ${number}`
  if (unknownRun !== null)
    return `belongs to another log: it continues run ${unknownRun}, which did not start in this one`
  return null
}

/** Adds the name that a log has by its first run, as in the warehouse, if its version did not record it. */
function namingItself(first: Contents): Contents {
  const { claims, firstRun, begun } = first
  if (claims.logs.size > 0 || firstRun === null || !begun.has(firstRun)) return first
  return { ...first, claims: { ...claims, logs: new Set([firstRun]) } }
}

/**
 * Returns the log's name by majority of segments; in a tie, the first wins. Each segment votes for the log that its runs
 * named when they began. A single segment may be foreign.
 */
function findLog(contents: readonly (Contents | null)[]): string | null {
  const present = contents.filter(one => one !== null)
  const named = new Map(
    present.flatMap(({ begun, claims: { logs } }) =>
      [...logs].flatMap(log => [...begun].map(run => [run, log])),
    ),
  )
  const votes = new Map<string, number>()
  for (const { runs } of present) {
    for (const log of new Set([...runs.keys()].flatMap(run => named.get(run) ?? []))) {
      votes.set(log, (votes.get(log) ?? 0) + 1)
    }
  }
  const [most] = [...votes].sort(([, a], [, b]) => b - a)
  return most?.[0] ?? null
}

/** Returns what is wrong with one segment by itself, or null. Reads all of it. */
export async function findDamage(path: string): Promise<string | null> {
  return (await readContents(path)).damage
}

/** A segment has at most 64 MB of lines (`src/core/pipeline/load.ts`), and a last one of maximum length. */
const MAX_UNPACKED_BYTES = 512 * 1024 * 1024

/**
 * Checks a segment quickly, before DuckDB reads the file.
 * @returns the most bytes that its lines can have.
 * @throws FatalError if the file is incomplete, or unpacks to more than any segment has.
 */
export async function assertNotCutShort(path: string): Promise<number> {
  const measured = measureFrames(await readFile(path))
  if ('damage' in measured) throw unusableSegment(path, `is damaged: ${measured.damage}`)
  if (measured.mostBytes > MAX_UNPACKED_BYTES)
    throw unusableSegment(
      path,
      `unpacks to more than ${formatCount(MAX_UNPACKED_BYTES)} bytes, which no run writes: another program wrote it`,
    )
  return measured.mostBytes
}

/** Reads a segment. @param onLine called for each usable line, with its text and the parsed line. */
export async function readContents(
  path: string,
  onLine: (text: string, line: ReadLine) => void = () => {},
): Promise<Contents> {
  const kinds = new Map<string, number>()
  const runs = new Map<string, string>()
  const begun = new Set<string>()
  const claims = { numbers: new Set<number>(), companies: new Set<string>(), logs: new Set<string>() }
  let damage: string | null = null
  let last = 0
  const take = (line: ReadLine) => {
    const { seq, run_id, at, type, number, company, log } = line
    if (seq !== last + 1) damage ??= `line ${seq} follows line ${last}`
    last = seq
    kinds.set(type, (kinds.get(type) ?? 0) + 1)
    if (!runs.has(run_id)) runs.set(run_id, at)
    if (type === 'run_started' || type === 'lost') begun.add(run_id)
    if (typeof number === 'number') claims.numbers.add(number)
    if (typeof company === 'string') claims.companies.add(company)
    if (typeof log === 'string') claims.logs.add(log)
    // The first run of a log names the log after itself.
    else if (number === 1 && type === 'run_started') claims.logs.add(run_id)
  }
  const bytes = await readFile(path).catch(error => {
    // A broken disk. Other errors, such as missing permissions, do not mean damage.
    if (findSystemCode(error) === 'EIO') return null
    throw error
  })
  if (bytes === null) return { ...NOTHING, damage: 'the disk cannot read it (EIO)' }
  for await (const frame of readFrames(bytes)) {
    if ('damage' in frame) {
      damage ??= frame.damage
      continue
    }
    for (const text of splitLines(frame.text)) {
      const line = readLine(text)
      if ('wrong' in line) {
        damage ??= `the line after line ${last} ${line.wrong}`
        continue
      }
      take(line)
      onLine(text, line)
    }
  }
  if (last === 0) damage ??= 'it has no lines'
  const [firstRun = null] = runs.keys()
  return { kinds, runs, begun, firstRun, claims, damage }
}

/** Lists the line types that this version does not know; another version wrote them. */
export function listUnknownTypes({ kinds }: Contents): string[] {
  return [...kinds.keys()].filter(type => !isKnownType(type))
}

/** Returns the names in the log's directory that are not segments. */
export async function listOtherNames(directory: string): Promise<string[]> {
  const segments = new Set((await listSegmentNumbers(directory)).map(number => segmentPath('', number)))
  return (await readdir(directory)).filter(name => !segments.has(name) && name !== BASE_FILE)
}
