import pRetry from 'p-retry'
import { createSlots } from '#src/lib/concurrency.ts'
import { FatalError, InterruptedError, RequestError } from '#src/lib/errors.ts'
import {
  type Answer,
  attempt,
  createEndpoint,
  type Endpoint,
  explainFailure,
  type Server,
  TransientError,
} from './endpoints.ts'
import {
  type ApiStats,
  createPace,
  openTransport,
  type RequestPace,
  type TransportOptions,
} from './transport.ts'

export type { Answer } from './endpoints.ts'
export type { ApiStats } from './transport.ts'

/** A real analysis is about 40 kB; the largest known has 360 items. A hostile one must not fill the memory. */
const MAX_BODY_BYTES = 32 * 1024 * 1024
/** 429 and 503 mean load, not failure: this many are waited out before they count as retries. */
const MAX_REFUSALS = 10
/** While the API answers nothing, a request that failed is sent again for this long. The last pause can add five minutes. */
const RETRY_FOR_MS = 4 * 60_000
const BRIEF_RETRIES = 1
/** Upper bound of the backoff between two attempts. */
const MAX_RETRY_DELAY_MS = 30_000

/**
 * The three endpoints of docs/contract.md#endpoints. Calls reject with FatalError (the run cannot continue),
 * RequestError (this request failed after retries) or InterruptedError (the signal was aborted).
 */
export type Api = {
  list(page: ListPage): Promise<Buffer>
  /** Requests a page as `list` does, but with one retry, also of a refusal: for the look of a command, which leaves a failing API to a run. */
  listBriefly(page: ListPage): Promise<Buffer>
  notice(id: string): Promise<Answer>
  analysis(id: string): Promise<Answer>
  /**
   * Sets what is awaited right before each request from now on, also before one that is repeated; what it throws ends the call.
   * It resolves to whether it had to wait.
   */
  onlyAfter(confirm: () => Promise<boolean>): void
  readonly stats: ApiStats
  readonly concurrency: number
  /** Estimates how long this many more requests would take, from the latency so far. */
  estimateSeconds(requests: number): number
  close(): Promise<void>
}

type ListPage = {
  readonly statuses: readonly string[] | null
  readonly limit: number
  readonly offset: number
}

export type ApiOptions = Omit<TransportOptions, 'maxBodyBytes'> & {
  readonly maxBodyBytes?: number
  readonly maxRps: number | null
  readonly retries: number
  readonly retryMs: number
  readonly onRetry?: (retry: Retry) => void
}

/**
 * A request that will be sent again, `againMs` from now; and if the API answers nothing, until `untilMs` (of `nowMs`), or null
 * if this is the last time.
 */
export type Retry = {
  readonly path: string
  readonly reason: string
  readonly againMs: number
  readonly untilMs: number | null
}

const LIST_PATH = '/api/v1/editais'

/** Opens a pool of keep-alive connections to the API. Sends nothing before the first call. */
export function createApiClient(options: ApiOptions): Api {
  const { baseUrl, signal, nowMs, maxRps } = options
  const prefix = `${new URL(baseUrl).pathname.replace(/\/$/, '')}${LIST_PATH}`
  const transport = openTransport({ maxBodyBytes: MAX_BODY_BYTES, ...options })
  const firstPauseMs = options.retryMs * 2
  const pace = createPace({ maxRps, firstPauseMs, nowMs })
  const endpoints = {
    list: createEndpoint(firstPauseMs),
    notice: createEndpoint(firstPauseMs),
    analysis: createEndpoint(firstPauseMs),
  }
  const server: Server = { transport, pace, endpoints, firstPauseMs, signal, guard: null }
  const patient: Patience = { retries: options.retries, refusals: MAX_REFUSALS }
  const brief: Patience = { retries: Math.min(options.retries, BRIEF_RETRIES), refusals: 0 }
  const request = (to: Endpoint, path: string, patience = patient) =>
    persist(() => attempt(server, to, path), { path, patience, pace, ...options })
  async function list({ statuses, limit, offset }: ListPage, patience: Patience): Promise<Buffer> {
    const filter = statuses ? `status=${statuses.join(',')}&` : ''
    const path = `${prefix}?${filter}limit=${limit}&offset=${offset}`
    const answer = await request(endpoints.list, path, patience)
    if (answer.kind === 'body') return answer.bytes
    throw new FatalError(
      answer.kind === 'absent'
        ? `${baseUrl}${LIST_PATH} does not exist (404). Set API_BASE_URL to the address before /api/v1.`
        : `The list page at offset ${offset} is larger than ${MAX_BODY_BYTES} bytes and was not read.`,
    )
  }
  return {
    stats: transport.stats,
    concurrency: options.concurrency,
    list: page => list(page, patient),
    listBriefly: page => list(page, brief),
    notice: id => request(endpoints.notice, `${prefix}/${encodeURIComponent(id)}`),
    analysis: id => request(endpoints.analysis, `${prefix}/${encodeURIComponent(id)}/analysis`),
    onlyAfter(given) {
      server.guard = { confirm: given, inSlot: createSlots(options.concurrency) }
    },
    estimateSeconds(requests) {
      const inParallel = (requests * transport.latencyMs()) / 1000 / options.concurrency
      return maxRps ? Math.max(inParallel, requests / maxRps) : inParallel
    },
    close: () => transport.close(),
  }
}

type Patience = {
  readonly retries: number
  /** How many refusals under load do not count as retries. */
  readonly refusals: number
}

type Persistence = ApiOptions & {
  readonly path: string
  readonly patience: Patience
  readonly pace: RequestPace
}

/**
 * Retries what may succeed later, for a limited time while the API answers nothing. Refusals under load are waited out before
 * they count as retries.
 */
async function persist(
  once: () => Promise<Answer>,
  { path, patience, pace, baseUrl, signal, nowMs, retryMs, onRetry }: Persistence,
): Promise<Answer> {
  let refusals = 0
  let failedAtMs: number | null = null
  // A rate limit that admits others in turn is no outage.
  const untilMs = () => Math.max(failedAtMs ?? 0, pace.answeredAtMs()) + RETRY_FOR_MS
  try {
    return await pRetry(() => once().catch(error => Promise.reject(explainFailure(error, baseUrl))), {
      retries: patience.retries,
      factor: 2,
      minTimeout: retryMs,
      maxTimeout: MAX_RETRY_DELAY_MS,
      randomize: true,
      signal,
      shouldRetry: ({ error }) => error instanceof TransientError && nowMs() < untilMs(),
      shouldConsumeRetry: ({ error }) => {
        if (!(error instanceof TransientError && error.refused)) return true
        refusals += 1
        return refusals > patience.refusals
      },
      onFailedAttempt: ({ error, retryDelay, retriesLeft }) => {
        failedAtMs ??= nowMs()
        if (!(error instanceof TransientError) || retriesLeft === 0 || nowMs() >= untilMs()) return
        const againMs = Math.round(Math.max(retryDelay, pace.pauseLeftMs()))
        // Only a retry that counts has a delay of its own.
        const isLast = (retriesLeft === 1 && retryDelay > 0) || nowMs() + againMs >= untilMs()
        onRetry?.({ path, reason: error.message, againMs, untilMs: isLast ? null : untilMs() })
      },
    })
  } catch (error) {
    if (signal.aborted) throw new InterruptedError()
    if (error instanceof TransientError) throw new RequestError(error.message, true)
    throw error
  }
}
