import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { type Dispatcher, Pool } from 'undici'
import { FatalError, InterruptedError, RequestError } from '#src/platform/errors.ts'
import { errorDetail, explain, header, refusal, TransientError, unavailable } from './failures.ts'
import { createPace, retryAfterMs } from './pace.ts'
import { createRefusals, type Refusals } from './refusals.ts'

/** A real analysis is about 40 kB; the largest known has 360 items. A hostile one must not fill the memory. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024
/** How much of a body over the bound is kept as evidence. */
const EXCERPT_BYTES = 2048
/** A shorter key, as on a test server, could be a word in the documents. Real keys are far longer. */
const MIN_MASKED_KEY = 16
/** Limits a whole answer: a server could trickle a body forever without any pause longer than the timeout. */
const MAX_REQUEST_TIMEOUTS = 10
/** 429 and 503 mean load, not failure: this many are waited out before they count as retries. */
const MAX_REFUSALS = 10
/** Upper bound of the backoff between two attempts. */
const MAX_RETRY_DELAY_MS = 30_000

export type Answer =
  | { readonly kind: 'body'; readonly bytes: Buffer }
  /** 404: unknown, or another company's; the API does not distinguish them. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'too_large'; readonly excerpt: Buffer }

export type ApiStats = {
  requests: number
  bytes: number
}

/**
 * The three endpoints of docs/contract.md#endpoints. Calls reject with FatalError (the run cannot continue),
 * RequestError (this request failed after retries) or InterruptedError (the signal was aborted).
 */
export type Api = {
  list(page: { statuses: readonly string[] | null; limit: number; offset: number }): Promise<Buffer>
  notice(id: string): Promise<Answer>
  analysis(id: string): Promise<Answer>
  readonly stats: ApiStats
  readonly concurrency: number
  /** How long this many more requests would take, estimated from the latency so far. */
  estimateSeconds(requests: number): number
  close(): Promise<void>
}

export type ApiOptions = {
  /** Origin and path before `/api/v1`, without a trailing slash. */
  baseUrl: string
  apiKey: string
  authHeader: 'authorization' | 'x-api-key'
  concurrency: number
  maxRps: number | null
  timeoutMs: number
  retries: number
  retryMs: number
  maxBodyBytes?: number
  signal: AbortSignal
  nowMs: () => number
  /** Called for each request sent: the answer's status, or null if there was no answer. */
  onAnswer?: (answer: { status: number | null; seconds: number }) => void
  onRetry?: (notice: { path: string; reason: string; retryDelayMs: number }) => void
}

type Endpoint = {
  readonly refusals: Refusals
  /** The last resource that was answered. Requesting it again shows whether the server still answers. */
  known: string | null
  checking: Promise<Endpoint | null> | null
  /** The result of that check, and when, counted in events as in `Refusals`. */
  verdict: { readonly at: number; readonly well: Endpoint | null } | null
}

const LIST_PATH = '/api/v1/editais'

/** Opens a pool of keep-alive connections to the API. Sends nothing before the first call. */
export function createApiClient(options: ApiOptions): Api {
  const { baseUrl, signal } = options
  const { origin, pathname } = new URL(baseUrl)
  const prefix = `${pathname.replace(/\/$/, '')}${LIST_PATH}`
  const stats: ApiStats = { requests: 0, bytes: 0 }
  const timing = { requests: 0, latencyMs: 0 }
  const secrets = spellings(options.apiKey)
  const firstPauseMs = options.retryMs * 2
  const pace = createPace({ maxRps: options.maxRps, firstPauseMs, nowMs: options.nowMs })
  const endpoints = { list: endpoint(), notice: endpoint(), analysis: endpoint() }
  const pool = new Pool(origin, {
    connections: options.concurrency,
    // HTTP/1.1: one request per connection keeps the concurrency at what the operator set.
    allowH2: false,
    pipelining: 1,
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
    connect: { timeout: options.timeoutMs },
  })
  const headers = {
    accept: 'application/json',
    // No compressed bodies: a bound on the bytes received would not bound what they decompress to.
    'accept-encoding': 'identity',
    'user-agent': 'editais-sync',
    ...(options.authHeader === 'authorization'
      ? { authorization: `Bearer ${options.apiKey}` }
      : { 'x-api-key': options.apiKey }),
  }

  /** One endpoint of a server may work while another does not, so each is judged by its own answers. */
  function endpoint(): Endpoint {
    return {
      refusals: createRefusals({ firstWaitMs: firstPauseMs }),
      known: null,
      checking: null,
      verdict: null,
    }
  }

  async function attempt(to: Endpoint, path: string): Promise<Answer> {
    await pace.turn(signal)
    const sent = to.refusals.sent()
    const { response, answer } = await send(path)
    await connectionReused()
    const { statusCode } = response
    const body = answer.kind === 'body' ? answer.bytes : null
    const lacking = unavailable(statusCode, body)
    if (!lacking && isFailure(statusCode)) return await failed(to, { path, sent }, response, body)
    to.refusals.answered(path, sent)
    pace.answered()
    if (lacking) throw lacking
    to.known = path
    if (statusCode === 200) return answer
    if (statusCode === 404) return { kind: 'absent' }
    throw refusal(statusCode, response, body)
  }

  /** Sends one request and reads its whole answer, whatever the status. Does not wait for the pace. */
  async function send(path: string): Promise<{ response: Dispatcher.ResponseData; answer: Answer }> {
    stats.requests += 1
    const sentMs = options.nowMs()
    const report = (status: number | null) =>
      options.onAnswer?.({ status, seconds: (options.nowMs() - sentMs) / 1000 })
    const response = await pool.request({ method: 'GET', path, headers, signal }).catch(error => {
      report(null)
      throw error
    })
    const answer = await readBody(response.body, {
      maxBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
      deadlineMs: options.nowMs() + options.timeoutMs * MAX_REQUEST_TIMEOUTS,
      nowMs: options.nowMs,
    })
    report(response.statusCode)
    timing.requests += 1
    timing.latencyMs += options.nowMs() - sentMs
    stats.bytes += answer.kind === 'body' ? answer.bytes.length : 0
    return { response, answer: withoutKey(answer, secrets) }
  }

  /** Waits as the refusal requires, all requests or only this one. Then the request may be retried. */
  async function failed(
    to: Endpoint,
    { path, sent }: { readonly path: string; readonly sent: number },
    response: Dispatcher.ResponseData,
    body: Buffer | null,
  ): Promise<never> {
    const { statusCode } = response
    const retryAfter = retryAfterMs(header(response, 'retry-after'), options.nowMs())
    const isRefused = statusCode === 429 || statusCode === 503
    if (!isRefused && retryAfter === null) throw new TransientError(`the API failed (${statusCode})`)
    const meaning = to.refusals.refused(path, retryAfter)
    if (meaning !== 'own') pace.pause(retryAfter)
    const well = meaning === 'unclear' ? await check(to, sent) : meaning === 'own' ? to : null
    if (well) {
      const waitMs = to.refusals.ownWaitMs(path, retryAfter)
      // If nothing from this endpoint was answered, the API may be at fault rather than this notice.
      if (waitMs === null) throw refusedAlone(response, body, well !== to)
      await sleep(waitMs, undefined, { signal })
    }
    throw isRefused
      ? new TransientError(`the API is limiting requests (${statusCode})`, true)
      : new TransientError(`the API failed (${statusCode})`)
  }

  /** One check for all requests refused together, including one whose refusal arrives after the check. */
  async function check(to: Endpoint, sent: number): Promise<Endpoint | null> {
    if (to.verdict && to.verdict.at > sent) return to.verdict.well
    to.checking ??= askAgain(to)
      .then(well => {
        to.verdict = { at: to.refusals.sent(), well }
        return well
      })
      .finally(() => {
        to.checking = null
      })
    return await to.checking
  }

  /**
   * Requests something once that was answered before, from this endpoint if possible. If it is answered again, the
   * server is healthy and the pause ends.
   * @returns the endpoint that works; null if none is known to work.
   */
  async function askAgain(to: Endpoint): Promise<Endpoint | null> {
    const well = [to, ...Object.values(endpoints)].find(({ known }) => known !== null)
    if (!well?.known) return null
    await sleep(firstPauseMs, undefined, { signal })
    const sent = well.refusals.sent()
    const status = await send(well.known).then(
      ({ response }) => response.statusCode,
      () => null,
    )
    if (status === null || isFailure(status)) return null
    well.refusals.answered(well.known, sent)
    pace.resume()
    return well
  }

  async function request(to: Endpoint, path: string): Promise<Answer> {
    let refusals = 0
    try {
      return await pRetry(() => attempt(to, path).catch(error => Promise.reject(explain(error, baseUrl))), {
        retries: options.retries,
        factor: 2,
        minTimeout: options.retryMs,
        maxTimeout: MAX_RETRY_DELAY_MS,
        randomize: true,
        signal,
        shouldRetry: ({ error }) => error instanceof TransientError,
        shouldConsumeRetry: ({ error }) => {
          if (!(error instanceof TransientError && error.refused)) return true
          refusals += 1
          return refusals > MAX_REFUSALS
        },
        onFailedAttempt: ({ error, retryDelay, retriesLeft }) => {
          if (error instanceof TransientError && retriesLeft > 0) {
            options.onRetry?.({ path, reason: error.message, retryDelayMs: Math.round(retryDelay) })
          }
        },
      })
    } catch (error) {
      if (signal.aborted) throw new InterruptedError()
      if (error instanceof TransientError) throw new RequestError(error.message, true)
      throw error
    }
  }

  return {
    stats,
    concurrency: options.concurrency,
    async list({ statuses, limit, offset }) {
      const filter = statuses ? `status=${statuses.join(',')}&` : ''
      const answer = await request(endpoints.list, `${prefix}?${filter}limit=${limit}&offset=${offset}`)
      if (answer.kind === 'body') return answer.bytes
      throw new FatalError(
        answer.kind === 'absent'
          ? `${baseUrl}${LIST_PATH} does not exist (404). Set API_BASE_URL to the address before /api/v1.`
          : `The list page at offset ${offset} is larger than ${MAX_BODY_BYTES} bytes and was not read.`,
      )
    },
    notice: id => request(endpoints.notice, `${prefix}/${encodeURIComponent(id)}`),
    analysis: id => request(endpoints.analysis, `${prefix}/${encodeURIComponent(id)}/analysis`),
    estimateSeconds(requests) {
      const latencyMs = timing.latencyMs / Math.max(1, timing.requests)
      const inParallel = (requests * latencyMs) / 1000 / options.concurrency
      return options.maxRps ? Math.max(inParallel, requests / options.maxRps) : inParallel
    },
    close: () => pool.destroy(),
  }
}

function isFailure(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}

/** Fails this request for this run. The server answers others, so they need not wait. */
function refusedAlone(
  response: Dispatcher.ResponseData,
  body: Buffer | null,
  isTransient: boolean,
): RequestError {
  const asked = header(response, 'retry-after')
  const later = asked === undefined ? '' : `, Retry-After: ${asked.slice(0, 40)}`
  return new RequestError(
    `the API rejects this request (${response.statusCode}${later}) but answers others${errorDetail(body)}`,
    isTransient,
  )
}

/** Reads a body up to a bound. Over it, drops the connection and returns the beginning. */
function readBody(
  body: Dispatcher.ResponseData['body'],
  limits: { maxBytes: number; deadlineMs: number; nowMs: () => number },
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    body.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > limits.maxBytes) {
        resolve({ kind: 'too_large', excerpt: Buffer.concat(chunks).subarray(0, 2 * EXCERPT_BYTES) })
        body.destroy()
      } else if (limits.nowMs() > limits.deadlineMs) {
        body.destroy(new TransientError('the API took too long to send its answer'))
      }
    })
    body.on('end', () =>
      resolve({ kind: 'body', bytes: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks) }),
    )
    body.on('error', reject)
  })
}

/**
 * The pool gives a free connection its next request only two turns of the event loop later. Without this
 * wait the caller would process this answer first, and all connections would idle in step. At 50 ms latency
 * that cost a tenth of the throughput.
 */
async function connectionReused(): Promise<void> {
  await setImmediate()
  await setImmediate()
}

/**
 * The key as a server may repeat it: as sent, in a URL, or in JSON as the encoders of PHP and .NET write it. Usually
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

/**
 * A server may repeat the key in an error or anywhere else, and this is the only place where it could enter
 * (invariant I7). Overwritten with as many characters, so that a body keeps its length.
 */
function withoutKey(answer: Answer, secrets: readonly string[]): Answer {
  if (answer.kind === 'absent') return answer
  const bytes = answer.kind === 'body' ? answer.bytes : answer.excerpt
  for (const secret of secrets) {
    for (let at = bytes.indexOf(secret); at !== -1; at = bytes.indexOf(secret, at)) {
      bytes.fill('*', at, at + secret.length)
    }
  }
  // Cut only now, so that no part of a key remains at the end.
  return answer.kind === 'too_large' ? { ...answer, excerpt: bytes.subarray(0, EXCERPT_BYTES) } : answer
}
