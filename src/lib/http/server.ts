import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as TcpServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { createClientAddresses, findNetwork } from './client_address.ts'
import { type ConnectionCounts, Connections } from './connections.ts'
import { measure, Outgoing, REFUSAL_WITHIN_MS, SECURITY_HEADERS } from './outgoing.ts'
import { findBadRequest } from './request_target.ts'
import { formatHostAndPort, HTTP_DEFAULTS, type HttpSettings } from './settings.ts'
import { countArrival } from './waiting_room.ts'

/** Answers an error. If the adapter could not read the request, the client is at fault; otherwise this server is. */
function answerTo(error: unknown): Response {
  const isWrong = error instanceof Error && error.name === 'RequestError'
  return isWrong
    ? Response.json({ error: 'bad_request', detail: 'The request target is malformed.' }, { status: 400 })
    : Response.json({ error: 'internal_error' }, { status: 500 })
}

/** Answers a request that no route may see (`request_target.ts`). */
function sendPlainError(
  outgoing: ServerResponse,
  { status, detail }: { status: number; detail: string },
): void {
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
  if (!socket.writable || findSystemCode(error) === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, name] =
    findSystemCode(error) === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'headers_too_large']
      : findSystemCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT'
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

/**
 * Connections that may wait to be accepted; the system also has its own limit. If a thousand arrive at once, clients
 * that do not fit retry after one second, then two, then four.
 */
const BACKLOG = 4096

/**
 * Listens on an address of this machine; port 0 picks a free one.
 * @param explain returns the message for a system error code: what is wrong and what to do.
 * @returns the port.
 * @throws FatalError (usage) if the port is taken or the address does not belong to this machine.
 */
function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  explain: (code: string) => string,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', error =>
      reject(
        new FatalError(explain(findSystemCode(error) ?? getMessage(error)), EXIT.usage, { cause: error }),
      ),
    )
    server.listen({ port, host, backlog: BACKLOG }, () => resolve((server.address() as AddressInfo).port))
  })
}

/** All headers of a request together. This is Node's default, stated here because clients can hit it. */
const MAX_HEADER_BYTES = 16 * 1024
/** How long a connection may stay idle between two requests. */
const KEEP_ALIVE_MS = 30_000
/** How often slow requests are checked for. Node's default of 30 s would exceed most of their time limit. */
const CHECK_EVERY_MS = 1000
/** After a stop, keep-alive clients may still send a request within this time. */
const LINGER_MS = 300
/** After a stop, running requests may take this much longer. */
const CLOSE_WITHIN_MS = 5000

/** Current connections, and what was turned away since the start. */
export type ConnectionFigures = ConnectionCounts &
  Readonly<Record<'open' | 'unreadBytes' | 'waiting', number>>

export type Listening = {
  /** Origin, without a trailing slash. */
  readonly url: string
  readonly port: number
  readonly connections: () => ConnectionFigures
  /** Makes each answer the last on its connection, from now on. */
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
  const connections = openConnections(settings, { addresses, onCrowd })
  const server = createBareServer(settings)
  let closing = false
  acceptConnections(server, connections)
  const respond = createRespond(app, intercept)
  answerRequests(server, { addresses, connections, respond, isClosing: () => closing })
  const actualPort = await listen(server, { host, port }, code => (explain ?? portProblem(settings))(code))
  return {
    url: `http://${formatHostAndPort(host, actualPort)}`,
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

type Addresses = ReturnType<typeof createClientAddresses>

function openConnections(
  settings: HttpSettings,
  { addresses, onCrowd }: { addresses: Addresses; onCrowd: (isCrowd: boolean) => void },
): Connections {
  return new Connections({
    maxConnections: settings.maxConnections,
    maxPerAddress: settings.maxConnectionsPerAddress,
    requestWithinMs: settings.requestTimeoutMs,
    answerWithinMs: settings.answerTimeoutMs,
    idleWithinMs: KEEP_ALIVE_MS + settings.requestTimeoutMs,
    isExempt: addresses.isTrusted,
    onCrowd,
  })
}

type BareServer = Server<typeof IncomingMessage, typeof Outgoing>

/** Parses requests; what happens to them is up to its listeners. */
function createBareServer({ requestTimeoutMs }: HttpSettings): BareServer {
  const server = createServer({
    ServerResponse: Outgoing,
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, requestTimeoutMs),
    keepAliveTimeout: KEEP_ALIVE_MS,
    // `findBadRequest` answers a missing Host, in JSON.
    requireHostHeader: false,
  })
  // `Connections` handles half-closed clients: their answers may still be on the way, in pieces.
  return Object.assign(server, { httpAllowHalfOpen: true })
}

/** Accepts every connection, and answers what arrives on it that is not a request. */
function acceptConnections(server: BareServer, connections: Connections): void {
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
  // Otherwise Node answers by itself. An unknown expectation may be ignored (RFC 9110).
  server.on('checkExpectation', (incoming, outgoing) => server.emit('request', incoming, outgoing))
}

type Respond = (incoming: IncomingMessage, outgoing: Outgoing) => Promise<void>

/** Answers a request that may be answered now: by the routes, unless it is malformed or intercepted. */
function createRespond(app: App, intercept: Intercept | undefined): Respond {
  const serve = getRequestListener((request, env) => app.fetch(request, env), {
    // The adapter's faster Request and Response would replace the globals of the whole process.
    overrideGlobalObjects: intercept === undefined,
    hostname: 'localhost',
    errorHandler: error => answerTo(error),
  })
  return async (incoming, outgoing) => {
    const wrong = findBadRequest(incoming)
    if (wrong) return sendPlainError(outgoing, wrong)
    const route = async () => void (await serve(incoming, outgoing))
    await (intercept ? intercept(incoming, outgoing, route) : route())
  }
}

/** Gives each request its exchange, and answers it when `connections` gives it a turn. */
function answerRequests(
  server: BareServer,
  {
    addresses,
    connections,
    respond,
    isClosing,
  }: { addresses: Addresses; connections: Connections; respond: Respond; isClosing: () => boolean },
): void {
  server.on('request', (incoming: IncomingMessage, outgoing: Outgoing) => {
    const { address, isSecure } = addresses.of(incoming)
    const arrivedMs = performance.now()
    outgoing.exchange = { address, isSecure, incoming, headers: {}, notes: {}, onEnd: null }
    const answer = async () => {
      // Evaluated when the answer is written, which may be much later.
      outgoing.isLast = isClosing
      measure(outgoing, { incoming, arrivedMs })
      await respond(incoming, outgoing)
    }
    connections.answer(incoming, { outgoing, answer, client: findNetwork(address) })
  })
}

function portProblem({ host, port }: HttpSettings): (code: string) => string {
  return code =>
    code === 'EADDRINUSE'
      ? `Port ${port} on ${host} is already in use, perhaps by another worker. Set HTTP_PORT to a free port.`
      : `Cannot listen on ${host}:${port} (${code}). Set HTTP_HOST and HTTP_PORT to an address of this machine.`
}

/** Closes the server. From then on every answer is the last on its connection, so that no client loses an answer. */
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
