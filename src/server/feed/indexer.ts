import { hash } from 'node:crypto'
import { dirname } from 'node:path'
import { readFrames } from '#src/core/rawlog/examine.ts'
import { segmentPath } from '#src/core/rawlog/files.ts'
import { type ReadLine, readLine } from '#src/core/rawlog/line.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { type Answered, answerOrders } from '#src/lib/child.ts'
import { FatalError } from '#src/lib/errors.ts'
import { splitLines } from '#src/lib/lines.ts'
import { follow, type LoadedLine } from './events.ts'
import { FeedIndex, type IndexedSegment } from './index_file.ts'
import {
  findLoadedLines,
  lineKey,
  openSegments,
  type Segments,
  type SharedSegments,
  type VersionFiles,
} from './segments.ts'

/** The required content of a company's index. */
export type IndexOrder = {
  /** The directory of the raw log. */
  readonly raw: string
  /** The store of its first segments, if the disk was restored from a checkpoint; null without LOG_URL. */
  readonly shared: SharedSegments | null
  /** The file of the index; its directory must exist. */
  readonly path: string
  /** The last segment of the snapshot that is served. */
  readonly upTo: number
  /** The versions of that snapshot. */
  readonly versions: VersionFiles
  readonly timeZone: string
}

export type Indexed = {
  /** Identifies the log that the index is of, as long as the index is not rebuilt. */
  readonly generation: string
}

/** The step that the indexer has reached, for tests that stop it there. */
export type IndexStep = 'opened' | 'read' | 'adding' | 'written' | 'committed'

/** Segments that are read in one transaction: until one of these bounds is exceeded. */
const MAX_PART = { documents: 2000, bytes: 16 * 1024 * 1024 }

/** The lines about notices that are in one segment. */
type ReadSegment = IndexedSegment & { readonly lines: readonly ReadLine[]; readonly bytes: number }

/**
 * Brings the index up to a segment: events of the segments that it lacks, or of all, if the log is not the one that it is of.
 * It depends on the log alone, so an index that was deleted is made again the same. A kill at any moment leaves a whole
 * index of the first segments.
 * @throws FatalError if the log cannot be read, or does not reach as far.
 */
export async function updateIndex(
  order: IndexOrder,
  onStep: (step: IndexStep) => void = () => {},
): Promise<Indexed> {
  const segments = await openSegments(order.raw, order.shared)
  const index = FeedIndex.open(order.path)
  const database = openWhenNeeded(order.path)
  try {
    onStep('opened')
    await index.write(() => forgetOtherLog(index, segments))
    const sources = { segments, open: database.open }
    while (await index.write(() => addPart(index, order, sources, onStep))) onStep('committed')
    return { generation: index.generation }
  } finally {
    index.close()
    segments.close()
    await database.close()
  }
}

/** Opens the database on first use, so that DuckDB is not loaded if there is nothing to ask it. */
function openWhenNeeded(path: string): { open: () => Promise<Database>; close: () => Promise<void> } {
  let opened: Promise<Database> | null = null
  return {
    open: () => {
      opened ??= Database.open(':memory:', { threads: 1, temporaryDirectory: dirname(path) })
      return opened
    },
    close: async () => (await opened)?.close(),
  }
}

/** Clears the index if a segment that it has is no longer in the log: it was salvaged or begun again. */
async function forgetOtherLog(index: FeedIndex, segments: Segments): Promise<void> {
  const indexed = index.segments
  // The store may have been replaced by another one: one segment shows it, because none there is ever replaced.
  const witness = indexed.findLast(({ number }) => segments.isInStore(number))
  for (const segment of indexed) {
    const file = await segments.whereIs(segment.number)
    if (file === segment.file && segment !== witness) continue
    const isSame =
      file !== null &&
      (await segments.hashSegment(segment.number)) === Buffer.from(segment.sha256).toString('hex')
    if (!isSame) return index.clear()
    if (file !== segment.file) index.addSegment({ ...segment, file })
  }
}

/** Adds the events of the next segments. Returns whether there may be more. */
async function addPart(
  index: FeedIndex,
  { raw, upTo, versions, timeZone }: IndexOrder,
  sources: { readonly segments: Segments; readonly open: () => Promise<Database> },
  onStep: (step: IndexStep) => void,
): Promise<boolean> {
  const read: ReadSegment[] = []
  let [documents, bytes] = [0, 0]
  for (let before = index.last; (before?.number ?? 0) < upTo; before = read.at(-1) ?? null) {
    if (documents >= MAX_PART.documents || bytes >= MAX_PART.bytes) break
    const segment = await readSegment(raw, sources.segments, before)
    read.push(segment)
    documents += segment.lines.filter(isDocument).length
    bytes += segment.bytes
  }
  onStep('read')
  const loaded =
    documents === 0
      ? new Set<string>()
      : await findLoadedLines(await sources.open(), versions, findTimeSpan(read))
  for (const segment of read) {
    index.addSegment(segment)
    onStep('adding')
    for (const line of segment.lines) {
      const { edital_id: id, at, type } = line as ReadLine & { readonly edital_id: string }
      if (isDocument(line) && !loaded.has(lineKey(type, id, Date.parse(at)))) continue
      addLine(index, { ...line, segment: segment.number }, { id, at, seq: line.seq, timeZone })
    }
  }
  onStep('written')
  return read.length > 0
}

function addLine(
  index: FeedIndex,
  line: LoadedLine,
  { id, at, seq, timeZone }: { id: string; at: string; seq: number; timeZone: string },
): void {
  const before = index.readState(id)
  const { state, events } = follow(before, line, timeZone)
  for (const [n, event] of events.entries())
    index.addEvent({ segment: line.segment, seq, n }, { at, edital_id: id }, event)
  if (state !== null && state !== before) index.setState(id, state)
}

function isDocument({ type }: ReadLine): boolean {
  return type === 'notice' || type === 'analysis'
}

function findTimeSpan(segments: readonly ReadSegment[]): { fromMs: number; toMs: number } {
  let [fromMs, toMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { lines } of segments) {
    for (const { at } of lines) {
      fromMs = Math.min(fromMs, Date.parse(at))
      toMs = Math.max(toMs, Date.parse(at))
    }
  }
  return { fromMs, toMs }
}

const ABOUT_NOTICES = ['notice', 'analysis', 'analysis_same', 'gone']

async function readSegment(
  raw: string,
  segments: Segments,
  before: IndexedSegment | null,
): Promise<ReadSegment> {
  const number = (before?.number ?? 0) + 1
  const path = segmentPath(raw, number)
  const file = await segments.whereIs(number)
  if (file === null) throw new FatalError(`segment ${path} of the raw log is missing`)
  const content = await segments.read(number)
  const digest = sha256(content)
  const chain = sha256(Buffer.concat([before?.chain ?? Buffer.alloc(0), digest]))
  const lines: ReadLine[] = []
  let bytes = 0
  for await (const frame of readFrames(content)) {
    if ('damage' in frame) throw new FatalError(`segment ${path} of the raw log is damaged: ${frame.damage}`)
    bytes += frame.text.length
    for (const text of splitLines(frame.text)) {
      const line = readLine(text)
      if ('wrong' in line)
        throw new FatalError(`segment ${path} of the raw log is damaged: a line ${line.wrong}`)
      if (ABOUT_NOTICES.includes(line.type) && typeof line.edital_id === 'string') lines.push(line)
    }
  }
  return { number, file, sha256: digest, chain, lines, bytes }
}

function sha256(bytes: Buffer): Buffer {
  return hash('sha256', bytes, 'buffer')
}

export type IndexAnswer = Answered & { readonly indexed?: Indexed }

// Runs in a separate process: the first index of a large company takes seconds, while the server keeps answering.
if (import.meta.main) answerOrders(async (order: IndexOrder) => ({ indexed: await updateIndex(order) }))
