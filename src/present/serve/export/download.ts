import { whenWritten } from '#src/platform/http/outgoing.ts'
import type { PreparedMonth } from '../prepared_month.ts'
import { Budget } from './budget.ts'
import { returnBuffer, takeBuffer } from './buffers.ts'
import { largeLine } from './large_line.ts'
import { type LineSpan, PIECE_BYTES, spansFrom, type What } from './lines.ts'
import { UNPACKERS, unpackInThread } from './unpackers.ts'

/** The memory for unpacking ahead of what is being sent, for all downloads together. */
const ahead = new Budget(64 * 1024 * 1024)
/** Spans of one download: the threads work on them while others are being sent. The first needs no budget. */
const SPANS_AHEAD = UNPACKERS + 1

type Download = {
  readonly months: readonly PreparedMonth[]
  readonly what: What
  /** The first byte, and the one after the last. */
  readonly from: number
  readonly to: number
  /** Downloads of different keys take turns. */
  readonly whose: string
  /** Whether the client is still there. */
  readonly isWanted: () => boolean
  /** Whether the pieces are written as they are, so that their memory can be used again afterwards. */
  readonly isPlain: boolean
  readonly onDamage: (month: PreparedMonth) => void
}

/** The lines of a span, and the buffer that they are in, if it is to be returned. */
type Lines = { readonly bytes: Uint8Array; readonly buffer: SharedArrayBuffer | null }

/** A span that is being unpacked; a large one is unpacked while it is sent. */
type Begun = {
  readonly span: LineSpan
  readonly lines: Promise<Lines | null> | null
  readonly giveBack: () => void
}

/**
 * Returns the bytes of an export in pieces. It holds little memory, however slowly they are taken.
 * @throws Error if a month is damaged.
 */
export async function* download(order: Download): AsyncGenerator<Uint8Array> {
  const { months, what, from, to, isWanted } = order
  const spans = spansFrom(months, what, from)
  const queue: Begun[] = []
  let next = spans.next()
  let left = to - from
  try {
    while (left > 0 && isWanted()) {
      while (!next.done && queue.length < SPANS_AHEAD) {
        const giveBack = queue.length === 0 ? () => {} : ahead.tryTake(next.value.bytes)
        if (!giveBack) break
        queue.push({ ...begin(next.value, order), giveBack })
        next = spans.next()
      }
      for await (const piece of piecesOf(queue[0] as Begun, order, left)) {
        left -= piece.length
        yield piece
      }
      queue.shift()?.giveBack()
    }
  } finally {
    for (const { lines, giveBack } of queue)
      void Promise.resolve(lines)
        .catch(() => {})
        .then(giveBack)
  }
}

/** Returns the bytes of a span, at most `left`; none if the client is gone. */
async function* piecesOf({ span, lines }: Begun, order: Download, left: number): AsyncGenerator<Uint8Array> {
  if (lines === null) yield* firstBytes(largePieces(span, order), left)
  else {
    const { bytes, buffer } = (await lines) ?? NOTHING
    yield* cutPieces(bytes.subarray(0, left), buffer)
  }
}

const NOTHING: Lines = { bytes: new Uint8Array(), buffer: null }

async function* largePieces(
  span: LineSpan,
  { what, isWanted, onDamage }: Download,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of largeLine(span, what)) {
      if (!isWanted()) return
      yield piece
    }
  } catch (error) {
    onDamage(span.month)
    throw error
  }
}

async function* firstBytes(pieces: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let left = most
  for await (const piece of pieces) {
    yield piece.subarray(0, left)
    left -= piece.length
    if (left <= 0) return
  }
}

function* cutPieces(bytes: Uint8Array, buffer: SharedArrayBuffer | null): Generator<Uint8Array> {
  let unwritten = Math.ceil(bytes.length / PIECE_BYTES)
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const piece = bytes.subarray(at, at + PIECE_BYTES)
    if (buffer) {
      whenWritten(piece, () => {
        unwritten -= 1
        if (unwritten === 0) returnBuffer(buffer)
      })
    }
    yield piece
  }
}

function begin(span: LineSpan, order: Download): Pick<Begun, 'span' | 'lines'> {
  if (span.isLarge) return { span, lines: null }
  const lines = order.what === 'notices' ? Promise.resolve(noticeLines(span)) : analysisLines(span, order)
  // It may fail before any code waits for it.
  lines.catch(() => {})
  return { span, lines }
}

const NEWLINE = 10

function noticeLines({ month, from, to, skip }: LineSpan): Lines {
  const lines = Buffer.concat([month.notices(from, to), Buffer.from('\n')])
  let end = -1
  for (let place = from; place < to - 1; place += 1) {
    end += month.noticeBytes(place) + 1
    lines[end] = NEWLINE
  }
  return { bytes: lines.subarray(skip), buffer: null }
}

async function analysisLines(
  { month, from, to, bytes, skip }: LineSpan,
  { what, whose, isWanted, isPlain, onDamage }: Download,
): Promise<Lines | null> {
  const frames = new Float64Array((to - from) * 3)
  const sizes = new Float64Array(to - from)
  for (let place = from; place < to; place += 1) {
    const frame = month.index.analyses[place]
    frames.set(frame ? [frame.at, frame.bytes, frame.size] : [-1, 0, 0], (place - from) * 3)
    sizes[place - from] = month.noticeBytes(place)
  }
  // Copied, so that a message has these bytes alone, and not the memory that they are in.
  const notices = what === 'both' ? { bytes: Uint8Array.from(month.notices(from, to)), sizes } : null
  const letGo = month.hold()
  try {
    const into = isPlain ? takeBuffer(bytes) : null
    const order = { file: month.analysesFile, frames, notices, size: bytes, into }
    const lines = await unpackInThread(whose, isWanted, order)
    return lines && { bytes: lines.subarray(skip), buffer: into }
  } catch (error) {
    onDamage(month)
    throw error
  } finally {
    letGo()
  }
}
