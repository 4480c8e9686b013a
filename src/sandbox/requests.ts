import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { requestPath } from '#src/lib/http/request_target.ts'
import { matchRoute, type RouteKind, readPresentedKey } from '#src/server/contract/routes.ts'

/** A request as faults and tests see it. Never holds the key. */
export type SandboxRequest = {
  readonly kind: RouteKind
  /** Slug of the key's company; null if the key is missing, unknown or revoked. */
  readonly company: string | null
  readonly id: string | null
  /** The offset as requested; null if absent or not a number. */
  readonly offset: number | null
  readonly limit: number | null
  readonly statuses: string | null
  readonly headersSeen: readonly ('authorization' | 'x-api-key')[]
  /** The client's address; null if its connection has ended. */
  readonly address: string | null
  /** A number that all requests of one connection share. */
  readonly connection: number
  readonly at: Date
}

/** The requests that the sandbox received, for tests that count them. */
export type RequestLog = {
  total: number
  readonly byKind: Record<RouteKind, number>
  /** Requests by notice id. */
  readonly byId: Map<string, { notice: number; analysis: number }>
  /** Answers by HTTP status; requests without an answer are not counted. */
  readonly byStatus: Map<number, number>
  /** The latest requests, oldest first. */
  readonly recent: SandboxRequest[]
  concurrent: number
  peakConcurrent: number
  /** Clears everything except the requests in progress. */
  reset(): void
}

/** Enough for any test, and a bound for a sandbox that runs for weeks. */
const RECENT_REQUESTS = 10_000

export function createRequestLog(): RequestLog {
  return {
    total: 0,
    byKind: { list: 0, notice: 0, analysis: 0, other: 0 },
    byId: new Map(),
    byStatus: new Map(),
    recent: [],
    concurrent: 0,
    peakConcurrent: 0,
    reset() {
      this.total = 0
      Object.assign(this.byKind, { list: 0, notice: 0, analysis: 0, other: 0 })
      this.byId.clear()
      this.byStatus.clear()
      this.recent.length = 0
      this.peakConcurrent = this.concurrent
    },
  }
}

/** Counts a request as started; the returned function counts it as ended, with its status if it was answered. */
export function recordRequest(log: RequestLog, request: SandboxRequest): (status: number | null) => void {
  log.total += 1
  log.byKind[request.kind] += 1
  if (request.id !== null && (request.kind === 'notice' || request.kind === 'analysis')) {
    const counts = log.byId.get(request.id) ?? { notice: 0, analysis: 0 }
    counts[request.kind] += 1
    log.byId.set(request.id, counts)
  }
  log.recent.push(request)
  // Trim rarely and a lot: shifting one by one would cost more than the request.
  if (log.recent.length >= 2 * RECENT_REQUESTS) log.recent.splice(0, RECENT_REQUESTS)
  log.concurrent += 1
  log.peakConcurrent = Math.max(log.peakConcurrent, log.concurrent)
  return status => {
    log.concurrent -= 1
    if (status !== null) log.byStatus.set(status, (log.byStatus.get(status) ?? 0) + 1)
  }
}

/** Reads what is requested, and for which company, from the request line and headers. */
export function describeRequest(
  incoming: IncomingMessage,
  companyOfKey: (key: string) => string | null,
): SandboxRequest {
  const { searchParams } = requestUrl(incoming)
  const { kind, id } = matchRoute(requestPath(incoming.url ?? '/'))
  const { authorization, 'x-api-key': xApiKey } = incoming.headers
  const key = readPresentedKey({ authorization, xApiKey: xApiKey?.toString() })
  return {
    kind,
    id: id === null ? null : decoded(id),
    company: key === null ? null : companyOfKey(key),
    offset: numberIn(searchParams, 'offset'),
    limit: numberIn(searchParams, 'limit'),
    statuses: searchParams.get('status'),
    headersSeen: (['authorization', 'x-api-key'] as const).filter(name => name in incoming.headers),
    address: incoming.socket.remoteAddress ?? null,
    connection: numberConnection(incoming.socket),
    at: new Date(),
  }
}

const numbers = new WeakMap<Socket, number>()
let connections = 0

function numberConnection(socket: Socket): number {
  const number = numbers.get(socket) ?? ++connections
  numbers.set(socket, number)
  return number
}

/** Returns the URL of a request, with a placeholder host. */
export function requestUrl(incoming: IncomingMessage): URL {
  const path = incoming.url ?? '/'
  return URL.parse(`http://sandbox.invalid${path}`) ?? new URL('http://sandbox.invalid/')
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function numberIn(parameters: URLSearchParams, name: string): number | null {
  const text = parameters.get(name)
  return text === null || Number.isNaN(Number(text)) ? null : Number(text)
}
