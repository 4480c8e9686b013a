import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  ServerResponse,
} from 'node:http'
import { type Socket, Server as TcpServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { systemCode } from '#src/platform/errors.ts'
import { listen } from '#src/platform/http/listen.ts'
import { type Client, createClientAddresses, networkOf } from './client_address.ts'
import { type ConnectionCounts, Connections } from './connections.ts'
import { countArrival } from './pace.ts'
import { badRequest } from './request_target.ts'
import { SECURITY_HEADERS, TLS_HEADERS } from './security_headers.ts'
import { HTTP_DEFAULTS, type HttpSettings } from './settings.ts'

/** All headers of a request together. This is Node's default, stated here because clients can hit it. */
const MAX_HEADER_BYTES = 16 * 1024
/** Limit for an unused request body; no route accepts this much. */
const MAX_BODY_READ = 64 * 1024
/** How long a connection may stay idle between two requests. */
const KEEP_ALIVE_MS = 30_000
/** How often slow requests are checked for. Node's default of 30 s would exceed most of their time limit. */
const CHECK_EVERY_MS = 1000
/** After a stop, keep-alive clients may still send a request within this time. */
const LINGER_MS = 300
/** After a stop, running requests may take this much longer. */
const CLOSE_WITHIN_MS = 5000
/** How long a client may take to read its answer before the rest of its request is discarded. */
const REFUSAL_WITHIN_MS = 1000

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

export type Ended = {
  /** Null if the connection was lost before there was an answer. */
  readonly status: number | null
  /** Whether the whole answer was sent. */
  readonly isWhole: boolean
  readonly ms: number
  /** As sent, including headers. */
  readonly bytes: number
}

/** What routes find in `context.env`. */
export type HttpBindings = {
  readonly incoming: IncomingMessage
  readonly outgoing: Outgoing
}

/** Current connections, and what was turned away since the start. */
export type ConnectionFigures = ConnectionCounts &
  Readonly<Record<'open' | 'unreadBytes' | 'waiting', number>>

export type Listening = {
  /** Origin, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly connections: () => ConnectionFigures
  /** From now on, each answer is the last on its connection. */
  drain(): void
  /** Accepts no more connections; running requests get a few seconds. */
  close(): Promise<void>
  /** Ends at once: running requests lose their connection. */
  abort(): Promise<void>
}

/** Answers instead of the routes, or lets them answer; used for the sandbox's faults. */
export type Intercept = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  serve: () => Promise<void>,
) => Promise<void>

// biome-ignore lint/suspicious/noExplicitAny: the routes may share any variables
type App = Pick<Hono<any>, 'fetch'>

type Options = Partial<HttpSettings> & {
  readonly intercept?: Intercept
  /** Returns the message for a system error code: why it cannot listen, and what to do. */
  readonly explain?: (code: string) => string
  /** Called when many connections are open, and again when only a few are. */
  readonly onCrowd?: (isCrowd: boolean) => void
}

/**
 * Serves on an address of this machine; port 0 picks a free one.
 * @throws FatalError (usage) if the port is taken or the address does not belong to this machine.
 */
export async function startHttp(app: App, options: Options): Promise<Listening> {
  const { intercept, explain, onCrowd = () => {}, ...given } = options
  const settings: HttpSettings = { ...HTTP_DEFAULTS, ...given }
  const { host, port } = settings
  const addresses = createClientAddresses(settings.trustedProxies)
  const connections = new Connections({
    maxConnections: settings.maxConnections,
    maxPerAddress: settings.maxConnectionsPerAddress,
    requestWithinMs: settings.requestTimeoutMs,
    answerWithinMs: settings.answerTimeoutMs,
    idleWithinMs: KEEP_ALIVE_MS + settings.requestTimeoutMs,
    isExempt: addresses.isTrusted,
    onCrowd,
  })
  const server = createServer({
    ServerResponse: Outgoing,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: settings.requestTimeoutMs,
    requestTimeout: settings.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, settings.requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
    // A missing Host is answered below, in JSON.
    requireHostHeader: false,
  })
  // `Connections` handles half-closed clients: their answers may still be on the way, in pieces.
  Object.assign(server, { httpAllowHalfOpen: true })
  let closing = false
  const isClosing = () => closing
  const serve = getRequestListener((request, env) => app.fetch(request, env), {
    // The adapter's faster Request and Response would replace the globals of the whole process.
    overrideGlobalObjects: intercept === undefined,
    hostname: 'localhost',
    errorHandler: error => answerTo(error),
  })
  server.on('connection', socket => {
    countArrival()
    connections.accept(socket)
  })
  server.on('clientError', (error, socket) => {
    // Anything written now would replace the answer or end up inside it.
    if (connections.isBusy(socket)) socket.destroy()
    else refuse(error, socket)
  })
  server.on('connect', (_, socket) => refuse(new Error('CONNECT'), socket))
  server.on('request', (incoming: IncomingMessage, outgoing: Outgoing) => {
    const { address, isSecure } = addresses.of(incoming)
    const arrivedMs = performance.now()
    outgoing.exchange = { address, isSecure, incoming, headers: {}, notes: {}, onEnd: null }
    const answer = async () => {
      // Evaluated when the answer is written, which may be much later.
      outgoing.isLast = isClosing
      measure(outgoing, { incoming, arrivedMs })
      const wrong = badRequest(incoming)
      if (wrong) return sendError(outgoing, wrong)
      const route = async () => void (await serve(incoming, outgoing))
      await (intercept ? intercept(incoming, outgoing, route) : route())
    }
    connections.answer(incoming, { outgoing, answer, client: networkOf(address) })
  })
  // Otherwise Node answers by itself. An unknown expectation may be ignored (RFC 9110).
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
  const actualPort = await listen(server, { host, port }, code => (explain ?? portProblem(settings))(code))
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${actualPort}`,
    port: actualPort,
    connections: () => ({
      ...connections.counts,
      open: connections.open,
      unreadBytes: connections.unreadBytes,
      waiting: connections.waiting,
    }),
    drain() {
      closing = true
    },
    close() {
      closing = true
      return close(server, connections)
    },
    abort: () => abort(server, connections),
  }
}

const isNever = () => false

/** Large bodies are written in pieces: the kernel takes megabytes at once, and all clients wait for the copy. */
const PIECE_BYTES = 256 * 1024

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

  /** Bytes held for a client that has not read its whole answer: the whole body, until its last piece is written. */
  get unreadBytes(): number {
    return this.#remaining ? this.#bodyBytes : this.writableLength
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
      this.lastPieceMs = performance.now()
      const piece = this.#remaining.subarray(0, PIECE_BYTES)
      const rest = this.#remaining.subarray(PIECE_BYTES)
      this.#remaining = rest.length > 0 ? rest : null
      if (!this.#remaining) super.end(piece, this.#onEnd)
      else if (!this.write(piece)) return
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

/** Whether a request's body may be so large that closing the connection is better than reading the rest. */
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

function measure(
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

/** If the adapter cannot read the request, the client is at fault. Anything else is our fault. */
function answerTo(error: unknown): Response {
  const isWrong = error instanceof Error && error.name === 'RequestError'
  return isWrong
    ? Response.json({ error: 'bad_request', detail: 'The request target is malformed.' }, { status: 400 })
    : Response.json({ error: 'internal_error' }, { status: 500 })
}

function sendError(outgoing: ServerResponse, { status, detail }: { status: number; detail: string }): void {
  const body = JSON.stringify({ error: 'bad_request', detail })
  // Later requests on this connection would be just as wrong.
  outgoing.shouldKeepAlive = false
  outgoing.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  outgoing.end(outgoing.req.method === 'HEAD' ? undefined : body)
}

/** Answers a request that Node could not parse, in JSON like any other bad request. */
function refuse(error: Error, socket: Duplex): void {
  if (!socket.writable || systemCode(error) === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, name] =
    systemCode(error) === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'headers_too_large']
      : systemCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'timeout']
        : ['400 Bad Request', 'bad_request']
  const body = JSON.stringify({ error: name })
  const headers = {
    Connection: 'close',
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    ...SECURITY_HEADERS,
  }
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`)
  // Anything more that it sends is not read.
  socket.pause()
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`)
  setTimeout(() => socket.destroy(), REFUSAL_WITHIN_MS).unref()
}

function portProblem({ host, port }: HttpSettings): (code: string) => string {
  return code =>
    code === 'EADDRINUSE'
      ? `Port ${port} on ${host} is already in use, perhaps by another worker. Set HTTP_PORT to a free port.`
      : `Cannot listen on ${host}:${port} (${code}). Set HTTP_HOST and HTTP_PORT to an address of this machine.`
}

/** From now on every answer is the last on its connection, so that no client loses an answer. */
async function close(server: Server, connections: Connections): Promise<void> {
  // Clients learn of it with their next answer, including those connecting now: closing the socket would reset them.
  if (connections.open > 0) await sleep(LINGER_MS)
  // Not the HTTP server's own `close`, which closes connections on which a client may be sending a request.
  const closed = new Promise<void>(resolve => TcpServer.prototype.close.call(server, () => resolve()))
  // After reading what has arrived: a connection with a pending request is not idle.
  setImmediate(() => connections.closeIdle())
  const late = new AbortController()
  const deadline = sleep(CLOSE_WITHIN_MS, undefined, { signal: late.signal }).then(() =>
    connections.closeAll(),
  )
  deadline.catch(() => {})
  await closed
  late.abort()
  await abort(server, connections)
}

function abort(server: Server, connections: Connections): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    connections.closeAll()
    server.closeAllConnections()
  })
}
