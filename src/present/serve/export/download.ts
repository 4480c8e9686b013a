import { whenWritten } from '#src/platform/http/outgoing.ts'
import type { PreparedMonth } from '../prepared_month.ts'
import { Budget } from './budget.ts'
import { returnBuffer, takeBuffer } from './buffers.ts'
import { type Span, spansFrom, type What } from './lines.ts'
import { UNPACKERS, unpackInThread } from './unpackers.ts'

/** What is unpacked and not yet sent, of all downloads. A line may have tens of megabytes. */
const ahead = new Budget(64 * 1024 * 1024)
/** Spans of one download: the threads work on them while others are being sent. */
const SPANS_AHEAD = UNPACKERS + 1
/** Written at once: the system takes megabytes at once, and all clients wait for the copy. */
const PIECE_BYTES = 256 * 1024

export type Download = {
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

/** A span that is being unpacked. */
type Unpacked = { readonly lines: Promise<Lines | null>; readonly giveBack: () => void }

/**
 * The bytes of an export in pieces. It holds little memory, however slowly they are taken.
 * @throws Error if a month is damaged.
 */
export async function* download(order: Download): AsyncGenerator<Uint8Array> {
  const { months, what, from, to, isWanted } = order
  const spans = spansFrom(months, what, from)
  const queue: Unpacked[] = []
  let next = spans.next()
  let left = to - from
  try {
    while (left > 0 && isWanted()) {
      while (!next.done && queue.length < SPANS_AHEAD) {
        const { bytes } = next.value
        // Whoever holds nothing may wait for memory: otherwise, two could wait for each other.
        const giveBack = queue.length === 0 ? await ahead.take(bytes) : ahead.tryTake(bytes)
        if (!giveBack) break
        queue.push({ lines: unpack(next.value, order), giveBack })
        next = spans.next()
      }
      const first = queue[0] as Unpacked
      const lines = await first.lines
      if (!lines) return
      const wanted = lines.bytes.subarray(0, left)
      left -= wanted.length
      yield* piecesOf(wanted, lines.buffer)
      queue.shift()
      first.giveBack()
    }
  } finally {
    for (const { lines, giveBack } of queue) void lines.catch(() => {}).then(giveBack)
  }
}

function* piecesOf(bytes: Uint8Array, buffer: SharedArrayBuffer | null): Generator<Uint8Array> {
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

/** Null if the client is gone. */
function unpack(span: Span, order: Download): Promise<Lines | null> {
  const unpacked = order.what === 'notices' ? Promise.resolve(noticeLines(span)) : analysisLines(span, order)
  // It may fail while nobody waits for it yet.
  unpacked.catch(() => {})
  return unpacked
}

const NEWLINE = 10

function noticeLines({ month, from, to, skip }: Span): Lines {
  const lines = Buffer.concat([month.notices(from, to), Buffer.from('\n')])
  let end = -1
  for (let place = from; place < to - 1; place += 1) {
    end += month.noticeBytes(place) + 1
    lines[end] = NEWLINE
  }
  return { bytes: lines.subarray(skip), buffer: null }
}

async function analysisLines(
  { month, from, to, bytes, skip }: Span,
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
