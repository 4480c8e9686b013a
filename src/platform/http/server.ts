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

/** All headers of a request together; Node's own bound, named here because clients meet it. */
const MAX_HEADER_BYTES = 16 * 1024
/** Of a body that nobody asked for; no route takes so much. */
const MAX_BODY_READ = 64 * 1024
/** A connection may stay open so long between two requests. */
const KEEP_ALIVE_MS = 30_000
/** How often requests that are sent too slowly are looked for; Node's 30 s would be most of the time they have. */
const CHECK_EVERY_MS = 1000
/** After a stop: a client that keeps its connection may send so much later what it was about to send. */
const LINGER_MS = 300
/** After a stop: requests that are under way may take so much longer. */
const CLOSE_WITHIN_MS = 5000
/** So long a client may take to read its answer before the rest of its request is thrown away. */
const REFUSAL_WITHIN_MS = 1000

/** One request and its answer, as the connection sees them; what routes know of it is added by them. */
export type Exchange = Client & {
  readonly incoming: IncomingMessage
  /** Of its answer, whoever makes it; names in lower case. An answer's own come before them. */
  readonly headers: Record<string, string>
  /** What the log has of it besides. */
  readonly notes: Record<string, string>
  /** Called once, when the answer was sent or its connection lost. */
  onEnd: ((exchange: Exchange, ended: Ended) => void) | null
}

export type Ended = {
  /** Null if the connection was lost before there was an answer. */
  readonly status: number | null
  /** Whether the whole answer was sent. */
  readonly isWhole: boolean
  readonly ms: number
  /** As sent, with headers. */
  readonly bytes: number
}

/** What routes find in `context.env`. */
export type HttpBindings = {
  readonly incoming: IncomingMessage
  readonly outgoing: Outgoing
}

/** How many connections there are, and what was refused since the start. */
export type ConnectionFigures = ConnectionCounts &
  Readonly<Record<'open' | 'unreadBytes' | 'waiting', number>>

export type Listening = {
  /** Origin, without a slash at the end. */
  readonly url: string
  readonly port: number
  readonly connections: () => ConnectionFigures
  /** From now on each answer is the last on its connection. */
  drain(): void
  /** Takes no more connections; requests that are under way may take some seconds. */
  close(): Promise<void>
  /** Ends at once: requests that are under way lose their connection. */
  abort(): Promise<void>
}

/** Answers in place of the routes, or has them answer; the sandbox's faults stand here. */
export type Intercept = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  serve: () => Promise<void>,
) => Promise<void>

// biome-ignore lint/suspicious/noExplicitAny: whatever its routes share among them
type App = Pick<Hono<any>, 'fetch'>

type Options = Partial<HttpSettings> & {
  readonly intercept?: Intercept
  /** Says for a system's code why it cannot listen, and what to do. */
  readonly explain?: (code: string) => string
  /** Called when many connections are open, and when they are few again. */
  readonly onCrowd?: (isCrowd: boolean) => void
}

/**
 * Serves on an address of this machine; port 0 takes a free one.
 * @throws FatalError (usage) when the port is taken, or the address is none of ours.
 */
export async function startHttp(app: App, options: Options): Promise<Listening> {
  const { intercept, explain, onCrowd = () => {}, ...given } = options
  const settings: HttpSettings = { ...HTTP_DEFAULTS, ...given }
  const { host, port } = settings
  const addresses = createClientAddresses(settings.trustedProxies)
  const connections = new Connections({
    ...{ maxConnections: settings.maxConnections, maxPerAddress: settings.maxConnectionsPerAddress },
    ...{ requestWithinMs: settings.requestTimeoutMs, answerWithinMs: settings.answerTimeoutMs },
    idleWithinMs: KEEP_ALIVE_MS + settings.requestTimeoutMs,
    ...{ isExempt: addresses.isTrusted, onCrowd },
  })
  const server = createServer({
    ServerResponse: Outgoing,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: settings.requestTimeoutMs,
    requestTimeout: settings.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, settings.requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Missing ones are answered below, in JSON.
    requireHostHeader: false,
  })
  // Whoever has sent all that it will send is seen to by the connections: its answer may be on its way in pieces.
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
    // What is written now would stand in the place of the answer, or in the middle of it.
    if (connections.isBusy(socket)) socket.destroy()
    else refuse(error, socket)
  })
  server.on('connect', (_, socket) => refuse(new Error('CONNECT'), socket))
  server.on('request', (incoming: IncomingMessage, outgoing: Outgoing) => {
    const { address, isSecure } = addresses.of(incoming)
    const arrivedMs = performance.now()
    outgoing.exchange = { address, isSecure, incoming, headers: {}, notes: {}, onEnd: null }
    const answer = async () => {
      // Known when it is written: it may be long in the making.
      outgoing.isLast = isClosing
      measure(outgoing, { incoming, arrivedMs })
      const wrong = badRequest(incoming)
      if (wrong) return sendError(outgoing, wrong)
      const route = async () => void (await serve(incoming, outgoing))
      await (intercept ? intercept(incoming, outgoing, route) : route())
    }
    connections.answer(incoming, { outgoing, answer, client: networkOf(address) })
  })
  // Node would answer by itself, in its own way: an expectation that is unknown may be ignored (RFC 9110).
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
  const actualPort = await listen(server, { host, port }, code => (explain ?? portProblem(settings))(code))
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${actualPort}`,
    port: actualPort,
    connections: () => ({
      ...connections.counts,
      ...{ open: connections.open, unreadBytes: connections.unreadBytes, waiting: connections.waiting },
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

/** A large body is written in pieces: the kernel takes megabytes at once, and everybody waits while it copies them. */
const PIECE_BYTES = 256 * 1024

/** Carries its exchange's headers and the security headers, and says so when it is the last on its connection. */
export class Outgoing extends ServerResponse {
  exchange: Exchange | null = null

  isLast = isNever

  /** What is left of a body that is written in pieces. */
  #remaining: Uint8Array | null = null
  #bodyBytes = 0
  #onEnd: (() => void) | undefined

  /** When the system last took a piece. */
  lastPieceMs = 0

  /** Bytes that are held for a client that has not read all of its answer: the whole body, up to its last piece. */
  get unreadBytes(): number {
    return this.#remaining ? this.#bodyBytes : this.writableLength
  }

  // biome-ignore lint/suspicious/noExplicitAny: Node's own has three forms
  override end(...given: any[]): this {
    const [body] = given
    // It is ending already.
    if (this.#remaining) return this
    if (!(body instanceof Uint8Array) || body.length <= PIECE_BYTES) return super.end(...given)
    if (!this.headersSent && !this.hasHeader('content-length')) this.setHeader('content-length', body.length)
    this.#remaining = body
    this.#bodyBytes = body.length
    this.#onEnd = given.find(one => typeof one === 'function')
    // In another turn: a piece that the system takes at once is drained at once.
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

/** Whether a request's body may be so large that the connection is better closed than the rest of it read. */
function hasLargeBody({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false
  const { 'content-length': length, 'transfer-encoding': encoding } = headers
  return encoding !== undefined || Number(length ?? 0) > MAX_BODY_READ
}

/** Once it was answered: a socket that is closed with bytes still unread takes the answer back. */
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
      // What was written but not sent has counted as well.
      bytes: Math.max(0, socket.bytesWritten - bytesBefore - socket.writableLength),
    })
  })
}

/** What the adapter cannot read as a request is the client's fault; all else is ours, and the routes answer that. */
function answerTo(error: unknown): Response {
  const isWrong = error instanceof Error && error.name === 'RequestError'
  return isWrong
    ? Response.json({ error: 'bad_request', detail: 'The request target is malformed.' }, { status: 400 })
    : Response.json({ error: 'internal_error' }, { status: 500 })
}

function sendError(outgoing: ServerResponse, { status, detail }: { status: number; detail: string }): void {
  const body = JSON.stringify({ error: 'bad_request', detail })
  // What follows on this connection would be as wrong.
  outgoing.shouldKeepAlive = false
  outgoing.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  outgoing.end(outgoing.req.method === 'HEAD' ? undefined : body)
}

/** Answers what Node could not read as a request, in JSON like any other wrong request. */
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
    ...{ Connection: 'close', 'Content-Type': 'application/json', 'Content-Length': body.length },
    ...SECURITY_HEADERS,
  }
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`)
  // What it goes on to send is not even read.
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

/** Every answer from now on is the last on its connection, so that no client is cut off from one. */
async function close(server: Server, connections: Connections): Promise<void> {
  // Clients learn it by their next answer, also those that connect just now: closing the door resets them.
  if (connections.open > 0) await sleep(LINGER_MS)
  // Not the HTTP server's own: it closes connections that a client may be sending a request on.
  const closed = new Promise<void>(resolve => TcpServer.prototype.close.call(server, () => resolve()))
  // After what has arrived meanwhile was read: whose request is there is not idle.
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
