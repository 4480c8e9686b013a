import { type HttpReply, openHttpClient } from '#src/platform/http/client.ts'
import { keyMask, withMaskedHeaders } from './masked_key.ts'

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
  readonly authHeader: 'authorization' | 'x-api-key'
  readonly concurrency: number
  readonly timeoutMs: number
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
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
    ...(options.authHeader === 'authorization'
      ? { authorization: `Bearer ${apiKey}` }
      : { 'x-api-key': apiKey }),
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
