import { setTimeout as sleep } from 'node:timers/promises'
import { type HttpReply, openHttpClient } from '#src/lib/http/client.ts'

/** A server that asks for an hour is retried sooner: it may have recovered, and a run must end. */
const MAX_PAUSE_MS = 5 * 60_000
/** Pause for a 429 or 503 without `Retry-After`: one second, doubled with each further refusal in a row. */
const FIRST_PAUSE_MS = 1000

/**
 * When the next request may be sent: one pause shared by all requests, and even spacing if a rate is set. The pause
 * is shared because a server that refuses one request under load would refuse the others too; `endpoints.ts` decides
 * which refusals mean load.
 */
export type RequestPace = {
  /** Resolves when a request may be sent; rejects when the signal is aborted. */
  turn(signal: AbortSignal): Promise<void>
  /** Makes all requests wait this long, or for a growing time if the server named none. */
  pause(ms: number | null): void
  /** Returns how long requests wait from now on; 0 without a pause. */
  pauseLeftMs(): number
  /** Ends the pause at once: the server is healthy after all. */
  resume(): void
  /** Notes that a request was answered, so the server is healthy. */
  answered(): void
  /** Returns when a request was last answered, in `nowMs`; 0 if none was. */
  answeredAtMs(): number
}

export function createPace(options: {
  maxRps: number | null
  firstPauseMs?: number
  nowMs: () => number
}): RequestPace {
  const { maxRps, firstPauseMs = FIRST_PAUSE_MS, nowMs } = options
  const spacingMs = maxRps ? 1000 / maxRps : 0
  let pausedUntil = 0
  let nextSlot = 0
  let refusals = 0
  let answeredAt = 0
  let resumed = new AbortController()

  return {
    async turn(signal) {
      for (;;) {
        const now = nowMs()
        const slot = Math.max(nextSlot, pausedUntil, now)
        if (slot <= now) {
          nextSlot = now + spacingMs
          return
        }
        const wasPaused = pausedUntil > now
        // A request that waits for a pause takes its slot afterwards; otherwise they would all go out in a burst.
        if (!wasPaused) nextSlot = slot + spacingMs
        // A request that has a slot keeps it, even if a pause ends early.
        const wake = wasPaused ? AbortSignal.any([signal, resumed.signal]) : signal
        await sleep(slot - now, undefined, { signal: wake }).catch(error => {
          if (signal.aborted) throw error
        })
        if (pausedUntil <= nowMs() && (spacingMs === 0 || !wasPaused)) return
      }
    },
    pause(ms) {
      const now = nowMs()
      // Requests in flight together are refused together; that counts as one refusal.
      if (ms === null && pausedUntil > now) return
      const growing = firstPauseMs * 2 ** Math.min(refusals, 6)
      refusals += 1
      pausedUntil = Math.max(pausedUntil, now + Math.min(ms ?? growing, MAX_PAUSE_MS))
    },
    pauseLeftMs: () => Math.max(0, pausedUntil - nowMs()),
    resume() {
      pausedUntil = nowMs()
      resumed.abort()
      resumed = new AbortController()
    },
    answered() {
      refusals = 0
      answeredAt = nowMs()
    },
    answeredAtMs: () => answeredAt,
  }
}

/** Reads `Retry-After` (seconds or an HTTP date) as milliseconds from now; null if absent or invalid. */
export function retryAfterMs(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null
  if (/^\d+$/.test(value.trim())) return Number(value) * 1000
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}

/** A shorter key, as on a test server, could be a word in the documents. Real keys are far longer. */
const MIN_MASKED_KEY = 16

type Mask = (bytes: Buffer) => void

/**
 * Overwrites a key wherever a server repeats it, in an error or anywhere else: the answers are the only place where
 * it could enter files, logs and messages (invariant I7). With as many characters, so that a body keeps its length.
 */
function keyMask(key: string): Mask {
  const secrets = spellings(key)
  return bytes => {
    for (const secret of secrets) {
      for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at)) {
        bytes.fill('*', at, at + secret.length)
      }
    }
  }
}

/** Returns the reply with the key masked in the values of the headers. */
function withMaskedHeaders(reply: HttpReply, mask: Mask): HttpReply {
  const masked = (value: string) => {
    const bytes = Buffer.from(value)
    mask(bytes)
    return bytes.toString()
  }
  const headers = Object.entries(reply.headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(masked) : value && masked(value),
  ])
  return { ...reply, headers: Object.fromEntries(headers) }
}

/**
 * Returns the key as a server may repeat it: as sent, in a URL, or in JSON as the encoders of PHP and .NET write it. Usually
 * they are all equal. Empty for a key so short that it could be a word in the documents.
 */
function spellings(key: string): readonly string[] {
  if (key.length < MIN_MASKED_KEY) return []
  const json = JSON.stringify(key).slice(1, -1)
  const escaped = json.replaceAll(
    /[+&<>'`]/g,
    character => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`,
  )
  const all = [key, encodeURIComponent(key), json, json.replaceAll('/', '\\/'), escaped]
  // Longest first, because it may contain a shorter one.
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}

/** A server could send a body slowly forever, without any pause longer than the timeout. */
const MAX_REQUEST_TIMEOUTS = 10

export type ApiStats = {
  requests: number
  bytes: number
}

export type TransportOptions = {
  /** Origin and path before `/api/v1`, without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey: string
  readonly concurrency: number
  readonly timeoutMs: number
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
  /** A clock that nobody can set: deadlines and pauses follow it. */
  readonly nowMs: () => number
  /** Called for each request sent: the answer's status, or null if there was no answer. */
  readonly onAnswer?: (answer: { status: number | null; seconds: number }) => void
}

/** Sends requests with the key, counts them, and masks the key in what comes back. */
export type Transport = {
  readonly stats: ApiStats
  /** Returns the mean of all answers so far; 0 before the first one. */
  latencyMs(): number
  /**
   * Sends one GET request at once, and resolves with its whole answer, whatever the status. Rejects with NetworkError
   * or InterruptedError.
   */
  send(path: string): Promise<HttpReply>
  close(): Promise<void>
}

export function openTransport(options: TransportOptions): Transport {
  const { apiKey, nowMs } = options
  const stats: ApiStats = { requests: 0, bytes: 0 }
  const timing = { answers: 0, latencyMs: 0 }
  const mask = keyMask(apiKey)
  const client = openHttpClient({
    url: options.baseUrl,
    // One request per connection, so this keeps the concurrency at what the operator set.
    connections: options.concurrency,
    silenceMs: options.timeoutMs,
    answerMs: options.timeoutMs * MAX_REQUEST_TIMEOUTS,
    limit: 'API_TIMEOUT_MS',
    maxBodyBytes: options.maxBodyBytes,
    signal: options.signal,
  })
  const headers: Readonly<Record<string, string>> = {
    accept: 'application/json',
    // Of the two headers of the contract, the one that proxies and logs know as a secret.
    authorization: `Bearer ${apiKey}`,
  }
  return {
    stats,
    latencyMs: () => timing.latencyMs / Math.max(1, timing.answers),
    async send(path) {
      stats.requests += 1
      const sentMs = nowMs()
      const report = (status: number | null) =>
        options.onAnswer?.({ status, seconds: (nowMs() - sentMs) / 1000 })
      const reply = await client.send({ method: 'GET', path, headers }).catch(error => {
        report(null)
        throw error
      })
      report(reply.status)
      timing.answers += 1
      timing.latencyMs += nowMs() - sentMs
      stats.bytes += reply.isCut ? 0 : reply.body.length
      mask(reply.body)
      // Messages about any other answer may show a header.
      return reply.status === 200 ? reply : withMaskedHeaders(reply, mask)
    },
    close: () => client.close(),
  }
}
