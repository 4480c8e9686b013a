import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { ConnectionFigures } from '#src/lib/http/server.ts'
import { countDroppedLines } from '#src/lib/log.ts'

const SAME = 'Read from the data directory: every worker shows the same, so take the max over them.'
const OWN = 'Of this worker, since it started: sum over the workers.'
const NOW = 'Of this worker, now: sum over the workers.'
/** From a page in memory to a large analysis over a slow line. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** One answer of the API, or a request whose client did not wait for it. */
type Answered = {
  /** `RouteKind`, or the name of a route of the mirror's own API. */
  readonly route: string
  /** Null if the client disconnected first. */
  readonly status: number | null
  /** Empty if no key identified the company. */
  readonly company: string
  readonly seconds: number
  readonly bytes: number
}

/** When an API key is refused. */
type KeyExpiry = {
  readonly company: string
  readonly prefix: string
  /** ISO 8601. */
  readonly expiresAt: string | null
}

export type ServiceMetrics = {
  answered(answer: Answered): void
  /** Counts a wrong key. */
  refused(): void
  /** Sets the source of the connection figures. */
  watch(connections: () => ConnectionFigures): void
  /** Sets the source of the keys that expire; while it throws, they are absent. */
  watchKeys(expiring: () => readonly KeyExpiry[]): void
}

/** Metrics of the served API, its clients, and the log. */
export function createServiceMetrics(registry: Registry): ServiceMetrics {
  const registers = [registry]
  let figures: (() => ConnectionFigures) | null = null
  let expiring: (() => readonly KeyExpiry[]) | null = null
  const requests = new Counter({
    name: 'editais_serve_requests_total',
    help: `Requests to the served API by route, company and status; the status is "none" if the client disconnected before its answer. ${OWN}`,
    labelNames: ['route', 'status', 'company'],
    registers,
  })
  const seconds = new Histogram({
    name: 'editais_serve_request_duration_seconds',
    help: `Time from the last byte of a request until the system accepted the last byte of its answer. ${OWN}`,
    labelNames: ['route'],
    buckets: SECONDS,
    registers,
  })
  const bytes = new Counter({
    name: 'editais_serve_response_bytes_total',
    help: `Bytes sent in answers of the served API, including headers. ${OWN}`,
    labelNames: ['route', 'company'],
    registers,
  })
  const refused = new Counter({
    name: 'editais_refused_credentials_total',
    help: `Requests with a wrong key. ${OWN}`,
    labelNames: ['credential'],
    registers,
  })
  refused.inc({ credential: 'key' }, 0)
  showConnections(registers, () => figures?.() ?? null)
  showKeys(registers, () => expiring?.() ?? [])
  new Counter({
    name: 'editais_log_lines_dropped_total',
    help: `Log lines dropped because stderr was not read in time. ${OWN}`,
    registers,
    collect() {
      this.reset()
      this.inc(countDroppedLines())
    },
  })
  return {
    answered({ route, status, company, ...answer }) {
      requests.inc({ route, status: status ?? 'none', company })
      seconds.observe({ route }, answer.seconds)
      bytes.inc({ route, company }, answer.bytes)
    },
    refused: () => refused.inc({ credential: 'key' }),
    watch(connections) {
      figures = connections
    },
    watchKeys(keys) {
      expiring = keys
    },
  }
}

function showKeys(registers: Registry[], expiring: () => readonly KeyExpiry[]): void {
  new Gauge({
    name: 'editais_api_key_expires_timestamp_seconds',
    help: `When an API key is refused; only of keys that were used in the last seven days and have no successor. ${SAME}`,
    labelNames: ['company', 'key'],
    registers,
    collect() {
      this.reset()
      for (const { company, prefix, expiresAt } of readable(expiring))
        this.set({ company, key: prefix }, Date.parse(expiresAt ?? '') / 1000)
    },
  })
}

/** Requests report and log why keys cannot be read; the other metrics must be there all the same. */
function readable(expiring: () => readonly KeyExpiry[]): readonly KeyExpiry[] {
  try {
    return expiring()
  } catch {
    return []
  }
}

function showConnections(registers: Registry[], figures: () => ConnectionFigures | null): void {
  new Gauge({
    name: 'editais_http_connections',
    help: `Open connections. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.open ?? 0)
    },
  })
  new Gauge({
    name: 'editais_http_unread_bytes',
    help: `Bytes of answers that clients have not yet read. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.unreadBytes ?? 0)
    },
  })
  new Gauge({
    name: 'editais_http_waiting_requests',
    help: `Requests waiting to start. ${NOW}`,
    registers,
    collect() {
      this.set(figures()?.waiting ?? 0)
    },
  })
  new Counter({
    name: 'editais_http_abandoned_requests_total',
    help: `Requests whose connection was lost before they started. ${OWN}`,
    registers,
    collect() {
      this.reset()
      this.inc(figures()?.abandoned ?? 0)
    },
  })
  new Counter({
    name: 'editais_http_connections_closed_total',
    help: `Connections closed to stay within limits: evicted (an idle one, for a new one), refused (no room), cut (an answer was not read in time, too many requests at once, or no room for a waiting request). ${OWN}`,
    labelNames: ['reason'],
    registers,
    collect() {
      this.reset()
      const { evicted = 0, refused = 0, cut = 0 } = figures() ?? {}
      for (const [reason, count] of Object.entries({ evicted, refused, cut })) this.inc({ reason }, count)
    },
  })
}
