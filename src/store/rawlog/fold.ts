import { segmentPath } from './files.ts'
import type { ReadLine } from './line.ts'
import { readLines } from './read.ts'
import { SegmentWriter } from './writer.ts'

/**
 * Writes a log anew: fewer and smaller segments that give the same tables.
 *
 * Lines about different notices do not depend on each other, so those of many segments can be in one. Lines about one
 * notice stay in their order: each wave of new segments has the lines of one old segment about each notice, and of a
 * second one if the first lists the notice and the second has its analysis. Lines about no notice come first.
 *
 * What later lines made irrelevant is left out: the lists of analyses that were replaced, analyses that were fetched again
 * without a change, and bytes of records that are no longer in quarantine.
 */

type FoldOptions = {
  readonly from: { readonly directory: string; readonly segments: readonly number[] }
  /** An empty directory. */
  readonly to: string
  /** Whether the line has a record that is in quarantine: then its bytes are needed. */
  readonly isNeeded: (segment: number, seq: number) => boolean
  /** Called before each segment is read, three times or more often for each. */
  readonly onSegment: () => void
}

/** Bounds of a new segment, like those of a run's (`src/pipeline/load.ts`). */
const MAX_SEGMENT = { bytes: 64 * 1024 * 1024, documents: 3000 }
/** Segments that are written at once; further ones take another pass over the old log. */
const MAX_OPEN = 200
/** Small, because each open segment holds one. */
const BLOCK_BYTES = 256 * 1024

/** What is known of a record when the whole log was read. */
type Fate = { lastAnalysis: number; lastFetch: number; isRejected: boolean }
/** Of the whole log. */
type Fates = {
  readonly of: ReadonlyMap<string, Readonly<Fate>>
  /** The lines, as `<segment> <subject>`, of records that later lines found usable (`fetched_in`). */
  readonly origins: ReadonlySet<string>
}

/** A line that stays. */
type Kept = {
  readonly segment: number
  readonly subject: string | null
  readonly type: string
  readonly wave: number
  /** As JSON, with the `seq` and `number` that it had. */
  readonly text: string
  readonly fetchedIn: number | null
}

/** @returns how many segments the new log has. */
export async function foldLog(options: FoldOptions): Promise<number> {
  const fates = await readFates(options)
  const sizes = await planSegments(options, fates)
  const total = sizes.flat().length
  for (let first = 1; first <= total; first += MAX_OPEN) {
    await writeSegments(options, fates, sizes, { first, last: Math.min(total, first + MAX_OPEN - 1) })
  }
  return total
}

async function readFates(options: FoldOptions): Promise<Fates> {
  const fates = new Map<string, Fate>()
  const origins = new Set<string>()
  for await (const { segment, lines } of segmentsOf(options)) {
    for (const line of lines) {
      const subject = subjectOf(line)
      if (subject === null) continue
      const fate = fates.get(subject) ?? { lastAnalysis: 0, lastFetch: 0, isRejected: false }
      fates.set(subject, fate)
      if (line.type === 'rejected') fate.isRejected = true
      if (line.fetchedIn !== null) origins.add(`${line.fetchedIn} ${subject}`)
      if (line.type === 'analysis') fate.lastAnalysis = placeOf(segment, line)
      if (isFetch(line)) fate.lastFetch = placeOf(segment, line)
    }
  }
  return { of: fates, origins }
}

/** How many lines each new segment has, by wave. */
async function planSegments(options: FoldOptions, fates: Fates): Promise<number[][]> {
  const waves: { lines: number; bytes: number; documents: number }[][] = []
  for await (const { wave, text, type } of keptLines(options, fates)) {
    waves[wave] ??= []
    const segments = waves[wave]
    const last = segments.at(-1)
    const isFull =
      last === undefined || last.bytes >= MAX_SEGMENT.bytes || last.documents >= MAX_SEGMENT.documents
    const current = isFull ? { lines: 0, bytes: 0, documents: 0 } : last
    if (isFull) segments.push(current)
    current.lines += 1
    current.bytes += text.length
    if (type === 'notice' || type === 'analysis') current.documents += 1
  }
  return waves.map(segments => segments.map(({ lines }) => lines))
}

async function writeSegments(
  options: FoldOptions,
  fates: Fates,
  sizes: readonly (readonly number[])[],
  { first, last }: { readonly first: number; readonly last: number },
): Promise<void> {
  const writers = new Map<number, SegmentWriter>()
  const numberOf = numbering(sizes)
  /** Where those lines are now. */
  const moved = new Map<string, number>()
  try {
    for await (const kept of keptLines(options, fates)) {
      const number = numberOf(kept.wave)
      const origin = `${kept.segment} ${kept.subject}`
      if (fates.origins.has(origin)) moved.set(origin, number)
      if (number < first || number > last) continue
      const writer = writers.get(number) ?? new SegmentWriter(options.to, number, 0, BLOCK_BYTES)
      writers.set(number, writer)
      const fetchedIn = kept.fetchedIn === null ? null : (moved.get(`${kept.fetchedIn} ${kept.subject}`) ?? 0)
      const line = (seq: number) => [Buffer.from(`${textAt(kept.text, { seq, number, fetchedIn })}\n`)]
      await writer.append(line, { document: false, atMs: 0 })
    }
    for (const writer of writers.values()) await writer.finish()
  } finally {
    for (const writer of writers.values()) await writer.drop()
  }
}

/** Gives the number of the segment of each wave's next line. */
function numbering(sizes: readonly (readonly number[])[]): (wave: number) => number {
  let next = 1
  const places = sizes.map(lines => {
    const start = next
    next += lines.length
    return { start, lines, segment: 0, written: 0 }
  })
  return wave => {
    const place = places[wave] as (typeof places)[number]
    if (place.written === place.lines[place.segment]) {
      place.segment += 1
      place.written = 0
    }
    place.written += 1
    return place.start + place.segment
  }
}

/** The lines that stay, with their waves. Every call gives the same. */
async function* keptLines(options: FoldOptions, fates: Fates): AsyncGenerator<Kept> {
  const before = new Map<string, { wave: number; isList: boolean }>()
  for await (const { segment, lines } of segmentsOf(options)) {
    const kept = lines.flatMap(line => {
      const text = trimmed(line, segment, fates, options)
      return text === null ? [] : [{ line, text, subject: subjectOf(line) }]
    })
    const bySubject = Map.groupBy(kept, ({ subject }) => subject)
    const waves = new Map<string | null, number>([[null, 0]])
    for (const [subject, some] of bySubject) {
      if (subject === null) continue
      const last = before.get(subject)
      const isAnalysis = some.length === 1 && some.every(({ line }) => isFetch(line))
      const begins = !(isAnalysis && last?.isList)
      const wave = (last?.wave ?? 0) + (begins ? 1 : 0)
      waves.set(subject, wave)
      before.set(subject, { wave, isList: some.every(({ line }) => line.type === 'notice') })
    }
    for (const { line, text, subject } of kept) {
      const { type, fetchedIn } = line
      yield { segment, subject, type, wave: waves.get(subject) as number, text, fetchedIn }
    }
  }
}

/** Null for a line that is left out. */
function trimmed(line: Head, segment: number, fates: Fates, { isNeeded }: FoldOptions): string | null {
  const { text, type, seq } = line
  const fate = fates.of.get(subjectOf(line) ?? '')
  if (fate === undefined || isNeeded(segment, seq)) return text
  const place = placeOf(segment, line)
  if (type === 'analysis_same' && place < fate.lastFetch && !fate.isRejected) return null
  if (type === 'analysis' && place < fate.lastAnalysis) return withoutLists(text)
  return type === 'rejected' ? withoutBytes(text) : text
}

function withoutLists(text: string): string {
  const { raw: _raw, analysis, ...line } = JSON.parse(text) as Record<string, unknown>
  const rest: Record<string, unknown> = { ...(analysis as object) }
  for (const name of ['requirements', 'items', 'alerts']) if (Array.isArray(rest[name])) rest[name] = []
  return JSON.stringify({ ...line, analysis: rest })
}

function withoutBytes(text: string): string {
  const { raw: _raw, ...line } = JSON.parse(text) as Record<string, unknown>
  return JSON.stringify(line)
}

/** The record that a line is about; one without an id is known by its hash. */
function subjectOf({ id, hash }: Head): string | null {
  if (id !== null) return `id ${id}`
  return hash === null ? null : `hash ${hash}`
}

function isFetch({ type }: Head): boolean {
  return type === 'analysis' || type === 'analysis_same'
}

/** Increases along the log. */
function placeOf(segment: number, { seq }: Head): number {
  return segment * 10_000_000 + seq
}

const HEAD = /^\{"seq":\d+,(?:"number":\d+,)?/

/** The line at another place: its document keeps its bytes. */
function textAt(
  text: string,
  { seq, number, fetchedIn }: { seq: number; number: number; fetchedIn: number | null },
): string {
  const head = `{"seq":${seq},${seq === 1 ? `"number":${number},` : ''}`
  if (fetchedIn === null && HEAD.test(text)) return text.replace(HEAD, () => head)
  const { seq: _seq, number: _number, ...rest } = JSON.parse(text) as Record<string, unknown>
  return head + JSON.stringify(fetchedIn === null ? rest : { ...rest, fetched_in: fetchedIn }).slice(1)
}

/** What decides about a line. The rest is not kept, because a segment may be large. */
type Head = {
  readonly text: string
  readonly seq: number
  readonly type: string
  readonly id: string | null
  readonly hash: string | null
  readonly fetchedIn: number | null
}

type Segment = { readonly segment: number; readonly lines: readonly Head[] }

async function* segmentsOf({ from, onSegment }: FoldOptions): AsyncGenerator<Segment> {
  for (const segment of from.segments) {
    onSegment()
    const lines: Head[] = []
    for await (const text of readLines(segmentPath(from.directory, segment))) lines.push(headOf(text))
    yield { segment, lines }
  }
}

function headOf(text: string): Head {
  const { seq, type, edital_id, hash, fetched_in } = JSON.parse(text) as ReadLine
  return {
    ...{ text, seq, type },
    id: typeof edital_id === 'string' ? edital_id : null,
    hash: typeof hash === 'string' ? hash : null,
    fetchedIn: typeof fetched_in === 'number' ? fetched_in : null,
  }
}
