import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream'
import { Worker } from 'node:worker_threads'
import { createZstdDecompress } from 'node:zlib'
import { callWhenWritten } from '#src/lib/http/outgoing.ts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import type { PreparedMonth } from '#src/server/prepared_month.ts'
import { BOTH, type LineSpan, listSpansFrom, PIECE_BYTES, type What } from './lines.ts'
import type { UnpackOrder, UnpackResult } from './unpack.ts'

const UNPACK = join(import.meta.dirname, 'unpack.ts')
/** More threads than this are idle: the event loop cannot send what they unpack. */
const MAX_THREADS = 4
/** A thread takes some 10 MB, and starts in 50 ms. */
const IDLE_MS = 10_000

/** How many orders are carried out at the same time. */
const UNPACKERS = Math.min(MAX_THREADS, availableParallelism())

/** Keys take turns: a key with many exports does not delay a key with one. */
const inTurn = createTurns(UNPACKERS)
const idleThreads: { readonly thread: Worker; readonly end: NodeJS.Timeout }[] = []

/**
 * Carries out an order in a thread.
 * @param isWanted asked when its turn comes; null is returned if it is not.
 * @returns the lines; a view of `into` if the order has it.
 * @throws Error if the file is damaged.
 */
async function unpackInThread(
  whose: string,
  isWanted: () => boolean,
  order: UnpackOrder,
): Promise<Uint8Array | null> {
  return await inTurn(whose, isWanted, async () => {
    const thread = takeThread()
    const over = new AbortController()
    const { signal } = over
    try {
      const ended = once(thread, 'exit', { signal }).then(() => ({ error: 'the thread ended early' }))
      ended.catch(() => {})
      thread.ref()
      thread.postMessage(order)
      const answered = once(thread, 'message', { signal }).then(([result]) => result as UnpackResult)
      const result = await Promise.race([answered, ended])
      if ('lines' in result)
        return result.lines ?? new Uint8Array(order.into as SharedArrayBuffer, 0, order.size)
      throw new Error(result.error)
    } finally {
      over.abort()
      if (thread.threadId !== -1) rest(thread)
    }
  })
}

function takeThread(): Worker {
  const free = idleThreads.pop()
  if (free) {
    clearTimeout(free.end)
    return free.thread
  }
  const thread = new Worker(UNPACK, { env: {}, execArgv: [] })
  // The event `exit` reports why it failed.
  thread.on('error', () => {})
  thread.once('exit', () => forget(thread))
  return thread
}

function forget(thread: Worker): void {
  const at = idleThreads.findIndex(one => one.thread === thread)
  if (at !== -1) idleThreads.splice(at, 1)
}

/** Keeps it for the next order, for a while. */
function rest(thread: Worker): void {
  thread.unref()
  const end = setTimeout(() => {
    forget(thread)
    void thread.terminate()
  }, IDLE_MS).unref()
  idleThreads.push({ thread, end })
}

/**
 * Returns a line that is larger than a span, in pieces: it is never in memory as a whole, however slowly its client reads.
 * @throws Error if the file is damaged.
 */
async function* largeLine({ month, from, skip }: LineSpan, what: What): AsyncGenerator<Uint8Array> {
  let toSkip = skip
  for await (const piece of readParts(month, from, what)) {
    const skipped = Math.min(toSkip, piece.length)
    toSkip -= skipped
    if (skipped < piece.length) yield piece.subarray(skipped)
  }
}

async function* readParts(month: LineSpan['month'], place: number, what: What): AsyncGenerator<Uint8Array> {
  if (what === 'both') yield Buffer.from(BOTH.before)
  if (what !== 'analyses') yield month.notices(place, place + 1)
  if (what === 'both') yield Buffer.from(BOTH.between)
  if (what !== 'notices') yield* analysis(month, place, what)
  yield Buffer.from(what === 'both' ? `${BOTH.after}\n` : '\n')
}

async function* analysis(month: LineSpan['month'], place: number, what: What): AsyncGenerator<Uint8Array> {
  const frame = month.index.analyses[place]
  if (!frame) {
    if (what === 'both') yield Buffer.from(BOTH.none)
    return
  }
  const { at, bytes, size } = frame
  const end = at + bytes - 1
  const packed = createReadStream('', { fd: month.analysesFile, autoClose: false, start: at, end })
  const unpacked = createZstdDecompress({ chunkSize: PIECE_BYTES })
  // Whoever iterates gets its error.
  pipeline(packed, unpacked, () => {})
  let read = 0
  for await (const piece of unpacked) {
    read += piece.length
    if (read > size) break
    yield piece
  }
  if (read !== size) throw new Error(`an analysis has ${read} bytes of JSON instead of ${size}`)
}

/**
 * Memory that threads unpack into, and that is sent from. New memory for each span costs as much as all the rest: the
 * garbage collector runs every 64 MB.
 */
const BUFFER_BYTES = 1024 * 1024
/** More are freed. */
const MAX_IDLE = 8

const idleBuffers: SharedArrayBuffer[] = []

/** Takes a buffer; null if one would be too small for this. */
function takeBuffer(bytes: number): SharedArrayBuffer | null {
  return bytes > BUFFER_BYTES ? null : (idleBuffers.pop() ?? new SharedArrayBuffer(BUFFER_BYTES))
}

/** Returns a buffer for reuse. Call it only when no code reads the buffer any more. One that is not returned is freed. */
function returnBuffer(buffer: SharedArrayBuffer): void {
  if (idleBuffers.length < MAX_IDLE) idleBuffers.push(buffer)
}

/** Memory that downloads share for work ahead of time. One that finds too little left works without it. */
class Budget {
  #left: number

  /** @param most bytes. */
  constructor(most: number) {
    this.#left = most
  }

  /** Takes bytes from the budget. @returns a function that gives them back; null if there are not enough. */
  tryTake(bytes: number): (() => void) | null {
    if (bytes > this.#left) return null
    this.#left -= bytes
    let isTaken = true
    return () => {
      if (isTaken) this.#left += bytes
      isTaken = false
    }
  }
}

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
  const spans = listSpansFrom(months, what, from)
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
      for await (const piece of readPieces(queue[0] as Begun, order, left)) {
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
async function* readPieces(
  { span, lines }: Begun,
  order: Download,
  left: number,
): AsyncGenerator<Uint8Array> {
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
      callWhenWritten(piece, () => {
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
