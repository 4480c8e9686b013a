import { setImmediate } from 'node:timers/promises'
import pRetry from 'p-retry'
import { type Dispatcher, Pool } from 'undici'
import { EXIT, FatalError, InterruptedError, messageOf, RequestError, systemCode } from '#src/errors.ts'
import { createPace, retryAfterMs } from './pace.ts'

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

/** Worth another try: the server or the network failed, not the request. */
class TransientError extends Error {
  override readonly name = 'TransientError'
  readonly refused: boolean

  constructor(message: string, refused = false) {
    super(message)
    this.refused = refused
  }
}

const LIST_PATH = '/api/v1/editais'

/** Opens a pool of keep-alive connections to the API; nothing is sent before the first call. */
export function createApi(options: ApiOptions): Api {
  const { baseUrl, signal } = options
  const { origin, pathname } = new URL(baseUrl)
  const prefix = `${pathname.replace(/\/$/, '')}${LIST_PATH}`
  const stats: ApiStats = { requests: 0, bytes: 0 }
  const answered = { requests: 0, latencyMs: 0 }
  const secrets = spellings(options.apiKey)
  const pace = createPace({ maxRps: options.maxRps, firstPauseMs: options.retryMs * 2, nowMs: options.nowMs })
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

  async function attempt(path: string): Promise<Answer> {
    await pace.turn(signal)
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
    answered.requests += 1
    answered.latencyMs += options.nowMs() - sentMs
    stats.bytes += answer.kind === 'body' ? answer.bytes.length : 0
    await connectionReused()
    return judge(response, withoutKey(answer, secrets))
  }

  function judge(response: Dispatcher.ResponseData, answer: Answer): Answer {
    const { statusCode } = response
    const wait = retryAfterMs(header(response, 'retry-after'), options.nowMs())
    if (statusCode === 429 || statusCode === 503) {
      pace.pause(wait)
      throw new TransientError(`the API is limiting requests (${statusCode})`, true)
    }
    if (statusCode === 408 || statusCode >= 500) {
      if (wait !== null) pace.pause(wait)
      throw new TransientError(`the API failed (${statusCode})`)
    }
    pace.answered()
    if (statusCode === 200) return answer
    if (statusCode === 404) return { kind: 'absent' }
    throw refusal(statusCode, response, answer)
  }

  async function request(path: string): Promise<Answer> {
    let refusals = 0
    try {
      return await pRetry(() => attempt(path).catch(error => Promise.reject(explain(error, baseUrl))), {
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
      const answer = await request(`${prefix}?${filter}limit=${limit}&offset=${offset}`)
      if (answer.kind === 'body') return answer.bytes
      throw new FatalError(
        answer.kind === 'absent'
          ? `${baseUrl}${LIST_PATH} does not exist (404). Set API_BASE_URL to the address before /api/v1.`
          : `The list page at offset ${offset} is larger than ${MAX_BODY_BYTES} bytes and was not read.`,
      )
    },
    notice: id => request(`${prefix}/${encodeURIComponent(id)}`),
    analysis: id => request(`${prefix}/${encodeURIComponent(id)}/analysis`),
    estimateSeconds(requests) {
      const latencyMs = answered.latencyMs / Math.max(1, answered.requests)
      const inParallel = (requests * latencyMs) / 1000 / options.concurrency
      return options.maxRps ? Math.max(inParallel, requests / options.maxRps) : inParallel
    },
    close: () => pool.destroy(),
  }
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

/** The error for an answer that another try would not change. */
function refusal(status: number, response: Dispatcher.ResponseData, answer: Answer): Error {
  const detail = answer.kind === 'body' ? errorDetail(answer.bytes) : ''
  if (status === 401) {
    return new FatalError(
      "API key refused (401): missing, invalid or revoked. Create a new key in the app's settings and set API_KEY.",
      EXIT.failed,
      { why: 'key_refused' },
    )
  }
  if (status === 400) {
    return new FatalError(
      `The API does not accept the request (400)${detail}. Check the settings.`,
      EXIT.usage,
      { why: 'wrong_settings' },
    )
  }
  if (status >= 300 && status < 400) {
    return new RequestError(
      `the API redirects (${status}) to ${redirectTarget(response)}; redirects are not followed, so that the key goes nowhere else. Set API_BASE_URL to the final address`,
    )
  }
  return new RequestError(`the API answered ${status}${detail}`)
}

/** Only the origin: the rest of the address may repeat what was sent. */
function redirectTarget(response: Dispatcher.ResponseData): string {
  const location = header(response, 'location') ?? ''
  return URL.canParse(location) ? new URL(location).origin : 'another path'
}

function errorDetail(bytes: Buffer): string {
  try {
    const { error, detail } = JSON.parse(bytes.toString('utf8')) as { error?: unknown; detail?: unknown }
    const said = [error, detail].filter(part => typeof part === 'string').join(': ')
    // A terminal would obey control characters.
    return said ? `: ${said.slice(0, 200).replaceAll(/\p{Cc}+/gu, ' ')}` : ''
  } catch {
    return ''
  }
}

function header(response: Dispatcher.ResponseData, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Tells what a network error means; programming errors pass through unchanged and are never retried. */
function explain(error: unknown, baseUrl: string): unknown {
  if (error instanceof FatalError || error instanceof RequestError || error instanceof TransientError)
    return error
  const code = systemCode(error)
  if (code === undefined) return error
  if (/^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_(VERIFY|GET))/.test(code)) {
    return new FatalError(
      `${baseUrl}: the connection cannot be trusted (${code}). Check API_BASE_URL and the certificates.`,
    )
  }
  const meaning = NETWORK_ERRORS[code]
  if (meaning) return new TransientError(`${meaning} (${new URL(baseUrl).host}, ${code})`)
  if (/^(UND_ERR|HPE_|E[A-Z]+$)/.test(code)) return new TransientError(`${messageOf(error)} (${code})`)
  return error
}

const NETWORK_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing answers at this address',
  ENOTFOUND: 'this host name is not known',
  EAI_AGAIN: 'this host name could not be looked up',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  UND_ERR_SOCKET: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'no connection within API_TIMEOUT_MS',
  UND_ERR_HEADERS_TIMEOUT: 'no answer within API_TIMEOUT_MS',
  UND_ERR_BODY_TIMEOUT: 'the answer stopped for longer than API_TIMEOUT_MS',
}
