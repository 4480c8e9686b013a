import { type IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Client } from './client_address.ts'

/** Forbids what our pages do not need. Bull Board requests fonts from another server, but works without them. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'self'",
  "form-action 'self'",
].join('; ')

/** Sent with every answer; a route may override the values. */
export const SECURITY_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

/** Also sent if the client uses TLS to a trusted proxy: it must keep using TLS for a year. */
const TLS_HEADERS = { 'strict-transport-security': 'max-age=31536000' } as const

/** Returns whether a browser sent the request from a page of another site. Programs send neither header. */
export function isFromElsewhere(headers: Headers): boolean {
  // Set by the browser, and no page can forge it. Browsers send it only over a secure connection.
  const site = headers.get('sec-fetch-site')
  if (site !== null) return site !== 'same-origin' && site !== 'none'
  const origin = headers.get('origin')
  if (origin === null) return false
  // Compared without the scheme: a proxy in front of us may speak TLS.
  return !URL.canParse(origin) || new URL(origin).host !== headers.get('host')
}

/** Limit for an unused request body; no route accepts this much. */
const MAX_BODY_READ = 64 * 1024
/** How long a client may take to read its answer before the rest of its request is discarded. */
export const REFUSAL_WITHIN_MS = 1000

/** One request and its answer, as the connection sees them. Routes add what they know. */
export type Exchange = Client & {
  readonly incoming: IncomingMessage
  /** Extra headers for its answer; names in lower case. Headers that the answer sets itself take precedence. */
  readonly headers: Record<string, string>
  /** Extra fields for its log line. */
  readonly notes: Record<string, string>
  /** Called once, when the answer was sent or the connection was lost. */
  onEnd: ((exchange: Exchange, ended: Ended) => void) | null
}

type Ended = {
  /** Null if the connection was lost before there was an answer. */
  readonly status: number | null
  /** Whether the whole answer was sent. */
  readonly isWhole: boolean
  readonly ms: number
  /** Bytes sent, including headers. */
  readonly bytes: number
}

/** The bindings that routes find in `context.env`. */
export type HttpBindings = {
  readonly incoming: IncomingMessage
  readonly outgoing: Outgoing
}

const isNever = () => false

/** Large bodies are written in pieces: the kernel takes megabytes at once, and all clients wait for the copy. */
const PIECE_BYTES = 256 * 1024

const afterWriting = new WeakMap<Uint8Array, () => void>()

/**
 * Calls back when the system has taken a piece of a streamed answer, so that its memory can be used again. Never if the
 * connection is lost before the piece is written.
 */
export function callWhenWritten(piece: Uint8Array, callback: () => void): void {
  afterWriting.set(piece, callback)
}

/** Adds its exchange's headers and the security headers, and closes the connection if it is the last answer on it. */
export class Outgoing extends ServerResponse {
  exchange: Exchange | null = null

  isLast = isNever

  /** The rest of a body that is written in pieces. */
  #remaining: Uint8Array | null = null
  #bodyBytes = 0
  #onEnd: (() => void) | undefined

  /** When the most recent piece was written. */
  lastPieceMs = 0

  /**
   * Returns the number of bytes held for a client that has not read its whole answer: the whole body, until its last
   * piece is written.
   */
  get unreadBytes(): number {
    return this.#remaining ? this.#bodyBytes : this.writableLength
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node's own has three forms
  override write(...given: any[]): boolean {
    this.lastPieceMs = performance.now()
    const callback = afterWriting.get(given[0])
    return callback ? super.write(given[0], () => callback()) : super.write(...(given as [unknown]))
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node's own has three forms
  override end(...given: any[]): this {
    const [body] = given
    // Already ending.
    if (this.#remaining) return this
    if (!(body instanceof Uint8Array) || body.length <= PIECE_BYTES) return super.end(...given)
    if (!this.headersSent && !this.hasHeader('content-length')) this.setHeader('content-length', body.length)
    this.#remaining = body
    this.#bodyBytes = body.length
    this.#onEnd = given.find(one => typeof one === 'function')
    // In a later turn, because a piece that the system takes at once also drains at once.
    this.on('drain', () => setImmediate(() => this.#writeOn()))
    this.#writeOn()
    return this
  }

  #writeOn(): void {
    while (this.#remaining && !this.destroyed) {
      const piece = this.#remaining.subarray(0, PIECE_BYTES)
      const rest = this.#remaining.subarray(PIECE_BYTES)
      this.#remaining = rest.length > 0 ? rest : null
      this.lastPieceMs = performance.now()
      if (!this.#remaining) super.end(piece, this.#onEnd)
      else if (!super.write(piece)) return
    }
  }

  override writeHead(status: number, ...rest: unknown[]): this {
    const { exchange } = this
    const headers = { ...SECURITY_HEADERS, ...exchange?.headers, ...(rest.at(-1) as OutgoingHttpHeaders) }
    if (exchange?.isSecure) Object.assign(headers, TLS_HEADERS)
    const isTooLong = hasLargeBody(this.req)
    if (isTooLong) closeUnread(this.req.socket)
    if (isTooLong || this.isLast()) this.shouldKeepAlive = false
    return super.writeHead(status, headers)
  }
}

/** Returns whether a request's body may be so large that closing the connection is better than reading the rest. */
function hasLargeBody({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false
  const { 'content-length': length, 'transfer-encoding': encoding } = headers
  return encoding !== undefined || Number(length ?? 0) > MAX_BODY_READ
}

/** Delays closing after the answer: closing a socket with unread bytes resets it, and the client loses the answer. */
function closeUnread(socket: Socket): void {
  socket.destroySoon = () => {
    socket.pause()
    socket.end()
    setTimeout(() => socket.destroy(), REFUSAL_WITHIN_MS).unref()
  }
}

/** Calls the exchange's `onEnd` when the answer was sent or the connection was lost. */
export function measure(
  outgoing: Outgoing,
  { incoming: { socket }, arrivedMs }: { readonly incoming: IncomingMessage; readonly arrivedMs: number },
): void {
  const bytesBefore = socket.bytesWritten
  outgoing.once('close', () => {
    const { exchange } = outgoing
    exchange?.onEnd?.(exchange, {
      status: outgoing.headersSent ? outgoing.statusCode : null,
      isWhole: outgoing.writableFinished,
      ms: performance.now() - arrivedMs,
      // `bytesWritten` includes what is still buffered.
      bytes: Math.max(0, socket.bytesWritten - bytesBefore - socket.writableLength),
    })
  })
}
