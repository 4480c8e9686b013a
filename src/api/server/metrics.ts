import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ConnectionFigures } from '#src/platform/http/server.ts'
import { droppedLines } from '#src/platform/log.ts'
import type { RouteKind } from './route_of.ts'

const OWN = 'Of this worker, since it started: sum over the workers.'
const NOW = 'Of this worker, now: sum over the workers.'
/** From a page that is in memory to a large analysis over a slow line. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** One answer of the API, or one that its client did not wait for. */
export type Answered = {
  readonly route: RouteKind
  /** Null if the client was gone first. */
  readonly status: number | null
  /** Empty if no key said whose. */
  readonly company: string
  readonly seconds: number
  readonly bytes: number
}

export type ServiceMetrics = {
  answered(answer: Answered): void
  /** A wrong API key, or a wrong ADMIN_TOKEN. */
  refused(credential: 'key' | 'token'): void
  /** Where the figures of connections come from, once there are any. */
  watch(connections: () => ConnectionFigures): void
}

/** Figures of the API that we serve, of whoever asked it, and of the log. */
export function createServiceMetrics(registry: Registry): ServiceMetrics {
  const registers = [registry]
  let figures: (() => ConnectionFigures) | null = null
  const requests = new Counter({
    name: 'editais_serve_requests_total',
    help: `Requests to the served API by route, company and status; the status is "none" if the client left before its answer. ${OWN}`,
    labelNames: ['route', 'status', 'company'],
    registers,
  })
  const seconds = new Histogram({
    name: 'editais_serve_request_duration_seconds',
    help: `From the last byte of a request to the last byte of its answer that the system took. ${OWN}`,
    labelNames: ['route'],
    buckets: SECONDS,
    registers,
  })
  const bytes = new Counter({
    name: 'editais_serve_response_bytes_total',
    help: `Bytes of answers of the API that is served, with headers, as sent. ${OWN}`,
    labelNames: ['route', 'company'],
    registers,
  })
  const refused = new Counter({
    name: 'editais_refused_credentials_total',
    help: `Requests with an API key or an ADMIN_TOKEN that is wrong. ${OWN}`,
    labelNames: ['credential'],
    registers,
  })
  for (const credential of ['key', 'token']) refused.inc({ credential }, 0)
  showConnections(registers, () => figures?.() ?? null)
  new Counter({
    name: 'editais_log_lines_dropped_total',
    help: `Log lines that were dropped because nobody read them in time. ${OWN}`,
    registers,
    collect() {
      this.reset()
      this.inc(droppedLines())
    },
  })
  return {
    answered({ route, status, company, ...answer }) {
      requests.inc({ route, status: status ?? 'none', company })
      seconds.observe({ route }, answer.seconds)
      bytes.inc({ route, company }, answer.bytes)
    },
    refused: credential => refused.inc({ credential }),
    watch(connections) {
      figures = connections
    },
  }
}

function showConnections(registers: Registry[], figures: () => ConnectionFigures | null): void {
  new Gauge({
    name: 'editais_http_connections',
    help: `Connections that are open. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.open ?? 0)
    },
  })
  new Gauge({
    name: 'editais_http_unread_bytes',
    help: `Bytes of answers that clients have not read yet. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.unreadBytes ?? 0)
    },
  })
  new Gauge({
    name: 'editais_http_waiting_requests',
    help: `Requests that have not begun. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.waiting ?? 0)
    },
  })
  new Counter({
    name: 'editais_http_abandoned_requests_total',
    help: `Requests whose connection was lost before they began. ${OWN}`,
    registers,
    collect() {
      this.reset()
      this.inc(figures()?.abandoned ?? 0)
    },
  })
  new Counter({
    name: 'editais_http_connections_closed_total',
    help: `Connections that were closed to stay within bounds: evicted (idle, for a new one), refused (no room), cut (an answer was not read in time, too many requests at once, or no room for one that waits). ${OWN}`,
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset()
      const { evicted = 0, refused = 0, cut = 0 } = figures() ?? {}
      for (const [reason, count] of Object.entries({ evicted, refused, cut })) this.inc({ reason }, count)
    },
  })
}
