import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { type Dispatcher, Pool } from 'undici'
import { FatalError, InterruptedError, RequestError } from '#src/platform/errors.ts'
import { errorDetail, explain, header, refusal, TransientError, unavailable } from './failures.ts'
import { createPace, retryAfterMs } from './pace.ts'
import { createRefusals, type Refusals } from './refusals.ts'

/** A real analysis has some 40 kB, the largest known 360 items; a hostile one must not fill the memory. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024
/** Kept of a body over the bound, as evidence. */
const EXCERPT_BYTES = 2048
/** A shorter key, as of a test server, could be a word of the documents; real ones are far longer. */
const MIN_MASKED_KEY = 16
/** A server may trickle a body for ever without one silence longer than the timeout. */
const MAX_REQUEST_TIMEOUTS = 10
/** 429 and 503 are load, not failure: so many are waited out before they count as retries. */
const MAX_REFUSALS = 10
/** However long the backoff grows, a run does not sleep longer than this between two tries. */
const MAX_RETRY_DELAY_MS = 30_000

export type Answer =
  | { readonly kind: 'body'; readonly bytes: Buffer }
  /** 404: unknown to the company, or another company's; the API does not tell which. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'too_large'; readonly excerpt: Buffer }

export type ApiStats = {
  requests: number
  bytes: number
}

/**
 * The three endpoints of the contract (section 4). Every call rejects with FatalError (the run cannot go
 * on), RequestError (this request is lost, after retries) or InterruptedError (the signal was aborted).
 */
export type Api = {
  list(page: { statuses: readonly string[] | null; limit: number; offset: number }): Promise<Buffer>
  notice(id: string): Promise<Answer>
  analysis(id: string): Promise<Answer>
  readonly stats: ApiStats
  readonly concurrency: number
  /** How long so many more requests would take, by the latency of those that were answered. */
  estimateSeconds(requests: number): number
  close(): Promise<void>
}

export type ApiOptions = {
  /** Origin and path before `/api/v1`, without a slash at the end. */
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
  /** Told of each request that was sent: the answer's status, or null where none came. */
  onAnswer?: (answer: { status: number | null; seconds: number }) => void
  onRetry?: (notice: { path: string; reason: string; retryDelayMs: number }) => void
}

type Endpoint = {
  readonly refusals: Refusals
  /** The last resource that was answered; asking for it again shows whether the server still answers. */
  known: string | null
  checking: Promise<Endpoint | null> | null
  /** What that showed, and when, counted as `Refusals` counts. */
  verdict: { readonly at: number; readonly well: Endpoint | null } | null
}

const LIST_PATH = '/api/v1/editais'

/** Opens a pool of keep-alive connections to the API; nothing is sent before the first call. */
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
    // HTTP/1.1: one request a connection keeps the concurrency what the operator set.
    allowH2: false,
    pipelining: 1,
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
    connect: { timeout: options.timeoutMs },
  })
  const headers = {
    accept: 'application/json',
    // Only what is asked for can be bounded: no compressed bodies.
    'accept-encoding': 'identity',
    'user-agent': 'editais-sync',
    ...(options.authHeader === 'authorization'
      ? { authorization: `Bearer ${options.apiKey}` }
      : { 'x-api-key': options.apiKey }),
  }

  /** A server may be well as to one endpoint and not as to another, so each is judged by its own answers. */
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

  /** One request and its whole answer, whatever it says, at whatever pace. */
  async function send(path: string): Promise<{ response: Dispatcher.ResponseData; answer: Answer }> {
    stats.requests += 1
    const sentMs = options.nowMs()
    const tell = (status: number | null) =>
      options.onAnswer?.({ status, seconds: (options.nowMs() - sentMs) / 1000 })
    const response = await pool.request({ method: 'GET', path, headers, signal }).catch(error => {
      tell(null)
      throw error
    })
    const answer = await readBody(response.body, {
      maxBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
      deadlineMs: options.nowMs() + options.timeoutMs * MAX_REQUEST_TIMEOUTS,
      nowMs: options.nowMs,
    })
    tell(response.statusCode)
    timing.requests += 1
    timing.latencyMs += options.nowMs() - sentMs
    stats.bytes += answer.kind === 'body' ? answer.bytes.length : 0
    return { response, answer: withoutKey(answer, secrets) }
  }

  /** Waits as the refusal asks for, all or this one alone; then the request may be tried again. */
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
      // Nothing of this endpoint was answered: that may be the API's fault, and not this notice's.
      if (waitMs === null) throw refusedAlone(response, body, well !== to)
      await sleep(waitMs, undefined, { signal })
    }
    throw isRefused
      ? new TransientError(`the API is limiting requests (${statusCode})`, true)
      : new TransientError(`the API failed (${statusCode})`)
  }

  /** One question for all that were refused together, also for one whose refusal comes after the answer. */
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
   * Asks once for what was answered before, of this endpoint if there is any: if it still is, the server is well and
   * nobody need wait any more.
   * @returns the endpoint that is well; null if none is, as far as is known.
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

/** Given up for this run: the server answers others, so it would be for nothing that they wait too. */
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

/** Collects a body up to a bound; over it the connection is dropped and the beginning returned. */
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
 * wait the caller would work on this answer first, and all connections would idle in step: at 50 ms
 * latency that cost a tenth of the requests.
 */
async function connectionReused(): Promise<void> {
  await setImmediate()
  await setImmediate()
}

/**
 * The key as a server may repeat it: as it was sent, in an address, or in JSON as the encoders of PHP and .NET write
 * it. Mostly all are the same. None where a key is so short that it could be a word of the documents.
 */
function spellings(key: string): readonly string[] {
  if (key.length < MIN_MASKED_KEY) return []
  const json = JSON.stringify(key).slice(1, -1)
  const escaped = json.replaceAll(
    /[+&<>'`]/g,
    character => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`,
  )
  const all = [key, encodeURIComponent(key), json, json.replaceAll('/', '\\/'), escaped]
  // The longest first: it may hold a shorter one.
  return [...new Set(all)].sort((a, b) => b.length - a.length)
}

/**
 * A server may repeat the key, in an error or anywhere else; here is the one place it could come in
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
  // Cut only now, so that no part of a key is left at the end.
  return answer.kind === 'too_large' ? { ...answer, excerpt: bytes.subarray(0, EXCERPT_BYTES) } : answer
}
