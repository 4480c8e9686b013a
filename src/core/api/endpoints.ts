import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { UNAVAILABLE } from '#schema/analysis.ts'
import { makePrintable } from '#schema/text_key.ts'
import { EXIT, ExcludedError, FatalError, RequestError } from '#src/lib/errors.ts'
import { describeRedirect, findHeader, type HttpReply, isRedirect } from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import { type RequestPace, retryAfterMs, type Transport } from './transport.ts'

/** Error bodies are short; parsing megabytes of brackets would take gigabytes. */
const MAX_ERROR_BYTES = 64 * 1024
/** How much of another body is quoted. */
const QUOTED_BYTES = 60

/** Worth a retry: the server or the network failed, not the request. */
export class TransientError extends Error {
  override readonly name = 'TransientError'
  readonly refused: boolean

  constructor(message: string, refused = false) {
    super(message)
    this.refused = refused
  }
}

/** Returns the error for an answer that a retry would not change. */
export function refusedAnswer(reply: HttpReply): Error {
  const { status } = reply
  const detail = errorDetail(reply)
  if (status === 401) {
    return new FatalError(
      "API key refused (401): missing, invalid or revoked. Create a new key in the app's settings and set API_KEY.",
      EXIT.failed,
      { why: 'key_refused' },
    )
  }
  if (status === 400) {
    return new FatalError(`The API rejected the request (400)${detail}. Check the settings.`, EXIT.usage, {
      why: 'wrong_settings',
    })
  }
  if (isRedirect(status)) return new RequestError(`the API ${describeRedirect(reply, 'API_BASE_URL')}`)
  return new RequestError(`the API answered ${status}${detail}`)
}

/** A word for programs. Gateways, such as Spring's, have a property of the same name for people: `Not Found`. */
const ERROR_WORD = /^[\w.-]+$/

/** Returns whether the body of a failure is the contract's (docs/contract.md#error). */
function isErrorOfApi(reply: HttpReply): boolean {
  const { error } = readError(reply)
  return typeof error === 'string' && ERROR_WORD.test(error)
}

/** Returns the error for a 404 that a gateway or a proxy may have sent in place of the API. It proves nothing about a notice. */
function notOfApi({ status, body }: HttpReply): TransientError {
  const begin = makePrintable(body.subarray(0, QUOTED_BYTES).toString('utf8').trim())
  const sent = begin === '' ? 'nothing' : `"${begin}"`
  return new TransientError(
    `${status} with ${sent} is not the answer of the API itself, so it proves nothing; check API_BASE_URL, and the gateway or proxy before the API`,
  )
}

/** Returns the server's explanation, for a message; an empty text if it gave none that can be read. */
function errorDetail(reply: HttpReply): string {
  const { error, detail } = readError(reply)
  const explanation = [error, detail].filter(part => typeof part === 'string').join(': ')
  return explanation ? `: ${quoteServer(explanation)}` : ''
}

/** Returns the error if the server reports that it lacks this one analysis (`schema/analysis.ts`); otherwise null. */
function unavailable(reply: HttpReply): RequestError | null {
  if (reply.status !== 503) return null
  const { error, detail } = readError(reply)
  const why = typeof detail === 'string' ? `: ${quoteServer(detail)}` : ''
  if (error === UNAVAILABLE.excluded) return new ExcludedError(`the API does not offer this analysis${why}`)
  if (error === UNAVAILABLE.now) return new RequestError(`the API does not have this analysis now${why}`)
  return null
}

function readError({ body, isCut }: HttpReply): { readonly error?: unknown; readonly detail?: unknown } {
  if (isCut || body.length > MAX_ERROR_BYTES) return {}
  try {
    return JSON.parse(body.toString('utf8')) ?? {}
  } catch {
    return {}
  }
}

/** Returns a server's words, safe inside a message. */
function quoteServer(text: string): string {
  return makePrintable(text.slice(0, 200)).replace(/\.$/, '')
}

/** Explains a failure of the network, which is worth a retry unless TLS failed. Other errors are returned unchanged. */
export function explainFailure(error: unknown, baseUrl: string): unknown {
  if (!(error instanceof NetworkError)) return error
  const { trouble, message, code } = error
  if (trouble === 'untrusted') {
    return new FatalError(
      `${baseUrl} cannot be trusted: ${message} (${code}). Check API_BASE_URL and the certificates.`,
    )
  }
  const { host } = new URL(baseUrl)
  return new TransientError(`${message} (${code === null ? host : `${host}, ${code}`})`)
}

/** How much of a body over the bound is kept as evidence. */
const EXCERPT_BYTES = 2048

export type Answer =
  | { readonly kind: 'body'; readonly bytes: Buffer }
  /** 404, in the words of the API: unknown, or another company's; the API does not distinguish them. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'too_large'; readonly excerpt: Buffer }

/** One endpoint of a server may work while another does not, so each is judged by its own answers. */
export type Endpoint = {
  readonly refusals: Refusals
  /** The last resource that was answered. Requesting it again shows whether the server still answers. */
  known: string | null
  checking: Promise<Endpoint | null> | null
  /** The result of that check, and when, counted in events as in `Refusals`. */
  verdict: { readonly at: number; readonly well: Endpoint | null } | null
}

/** The conditions to await before each request is sent. */
type Guard = {
  /** Resolves to whether it had to wait. What it throws ends the request. */
  readonly confirm: () => Promise<boolean>
  /** Limits requests to the number of connections: one that waited for a connection could leave long after it was confirmed. */
  readonly inSlot: <T>(work: () => Promise<T>) => Promise<T>
}

/** The state that all requests to the API share. */
export type Server = {
  readonly transport: Transport
  readonly pace: RequestPace
  readonly endpoints: Readonly<Record<'list' | 'notice' | 'analysis', Endpoint>>
  /** The first wait after a refusal that names no time. */
  readonly firstPauseMs: number
  /** Null if requests need no confirmation. */
  guard: Guard | null
  readonly signal: AbortSignal
}

export function createEndpoint(firstPauseMs: number): Endpoint {
  return {
    refusals: createRefusals({ firstWaitMs: firstPauseMs }),
    known: null,
    checking: null,
    verdict: null,
  }
}

/**
 * Requests a resource once, at the pace of all requests.
 * @throws TransientError if a retry may help, after the wait that the server requires; the errors of `refusedAnswer` and of
 *   the transport.
 */
export async function attempt(server: Server, to: Endpoint, path: string): Promise<Answer> {
  const { pace } = server
  const { sent, reply } = await send(server, to, path)
  await connectionReused()
  const { status } = reply
  const lacking = unavailable(reply)
  if (!lacking && isFailure(status)) return await failed(server, to, { path, sent, reply })
  to.refusals.answered(path, sent)
  pace.answered()
  if (lacking) throw lacking
  // Without the list, the address is wrong.
  if (status === 404 && to !== server.endpoints.list && !isErrorOfApi(reply)) throw notOfApi(reply)
  to.known = path
  if (status === 404) return { kind: 'absent' }
  if (status !== 200) throw refusedAnswer(reply)
  // Cut only after the key was masked, so that no part of a key remains at the end.
  return reply.isCut
    ? { kind: 'too_large', excerpt: reply.body.subarray(0, EXCERPT_BYTES) }
    : { kind: 'body', bytes: reply.body }
}

async function send({ transport, pace, guard, signal }: Server, to: Endpoint, path: string) {
  const begin = async () => {
    const sent = to.refusals.sent()
    return { sent, reply: await transport.send(path) }
  }
  if (guard === null) {
    await pace.turn(signal)
    return await begin()
  }
  return await guard.inSlot(async () => {
    do await pace.turn(signal)
    while (await guard.confirm())
    return await begin()
  })
}

type Failed = { readonly path: string; readonly sent: number; readonly reply: HttpReply }

/** Waits as the refusal requires, all requests or only this one. Then the request may be retried. */
async function failed(server: Server, to: Endpoint, { path, sent, reply }: Failed): Promise<never> {
  const { status } = reply
  // A date counts from the server's own clock.
  const date = Date.parse(findHeader(reply, 'date') ?? '')
  const retryAfter = retryAfterMs(findHeader(reply, 'retry-after'), Number.isNaN(date) ? Date.now() : date)
  const isRefused = status === 429 || status === 503
  if (!isRefused && retryAfter === null) throw new TransientError(`the API failed (${status})`)
  const meaning = to.refusals.refused(path, retryAfter)
  if (meaning !== 'own') server.pace.pause(retryAfter)
  const well = meaning === 'unclear' ? await check(server, to, sent) : meaning === 'own' ? to : null
  if (well) {
    const waitMs = to.refusals.ownWaitMs(path, retryAfter)
    // If nothing from this endpoint was answered, the API may be at fault rather than this notice.
    if (waitMs === null) throw refusedAlone(reply, well !== to)
    await sleep(waitMs, undefined, { signal: server.signal })
  }
  throw isRefused
    ? new TransientError(
        status === 429 ? 'the API is limiting requests (429)' : 'the API is unavailable (503)',
        true,
      )
    : new TransientError(`the API failed (${status})`)
}

/** Checks an endpoint once for all requests that were refused together, including one whose refusal arrives after the check. */
async function check(server: Server, to: Endpoint, sent: number): Promise<Endpoint | null> {
  if (to.verdict && to.verdict.at > sent) return to.verdict.well
  to.checking ??= askAgain(server, to)
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
async function askAgain(
  { transport, pace, endpoints, guard, ...server }: Server,
  to: Endpoint,
): Promise<Endpoint | null> {
  const well = [to, ...Object.values(endpoints)].find(({ known }) => known !== null)
  if (!well?.known) return null
  await sleep(server.firstPauseMs, undefined, { signal: server.signal })
  // In no slot: requests that wait for the end of the pause hold them.
  await guard?.confirm()
  const sent = well.refusals.sent()
  const status = await transport.send(well.known).then(
    reply => reply.status,
    () => null,
  )
  if (status === null || isFailure(status)) return null
  well.refusals.answered(well.known, sent)
  pace.resume()
  return well
}

function isFailure(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}

/** Fails this request for this run. The server answers others, so they need not wait. */
function refusedAlone(reply: HttpReply, isTransient: boolean): RequestError {
  const asked = findHeader(reply, 'retry-after')
  const later = asked === undefined ? '' : `, Retry-After: ${quoteServer(asked).slice(0, 40)}`
  return new RequestError(
    `the API rejects this request (${reply.status}${later}) but answers others${errorDetail(reply)}`,
    isTransient,
  )
}

/**
 * Waits until the pool has given the free connection its next request, two turns of the event loop later. Without this, the
 * caller would process this answer first, and all connections would idle in step. At 50 ms latency that cost a tenth of the
 * throughput.
 */
async function connectionReused(): Promise<void> {
  await setImmediate()
  await setImmediate()
}

/** A pause up to this is cheap: all requests wait, without a check of the cause. */
const SHORT_PAUSE_MS = 5000
/** How long to wait for one resource while others are answered; a later run retries. */
const PATIENCE_MS = 30_000
/** How often it is retried in that time, doubling the wait each time. */
const OWN_TRIES = 4

/**
 * The meaning of a refusal (429, 503, or any failure with `Retry-After`):
 * - `load`: the server wants fewer requests, so all wait;
 * - `own`: it concerns only this resource, because the server answers others;
 * - `unclear`: nothing else was answered since. All wait, and a request that succeeded before is repeated as a check.
 */
type Meaning = 'load' | 'own' | 'unclear'

export type Refusals = {
  /** Notes that a request is sent; pass the result to `answered`. */
  sent(): number
  /** Notes that the server answered this resource with anything but a refusal. */
  answered(resource: string, sent: number): void
  /** Notes that the server refused this resource; `retryAfterMs` is null if it named no time. */
  refused(resource: string, retryAfterMs: number | null): Meaning
  /** Returns how long to wait before retrying a resource that is refused by itself; null to stop retrying. */
  ownWaitMs(resource: string, retryAfterMs: number | null): number | null
}

type Refused = {
  /** When it was first and last refused, counted in events. */
  readonly first: number
  last: number
  ownTries: number
  waitedMs: number
}

/**
 * Distinguishes an overloaded server from one that cannot serve a single resource. It judges by what the server
 * answers in the meantime, not by what it claims. Pure: it uses the order of events, not a clock.
 *
 * - A short pause is always respected. A resource is refused by itself if it is refused again although others,
 *   requested since, were answered.
 * - The exception: others that had been refused were answered since. A rate limit refuses different requests in turn.
 * - A long pause is respected only if the server answers nothing else.
 *
 * @param firstWaitMs the wait before retrying a resource refused by itself, if the server names none.
 */
export function createRefusals({ firstWaitMs }: { firstWaitMs: number }): Refusals {
  const refused = new Map<string, Refused>()
  let events = 0
  let lastAnsweredSent = 0
  let lastRecovery = 0

  return {
    sent: () => ++events,
    answered(resource, sent) {
      lastAnsweredSent = Math.max(lastAnsweredSent, sent)
      if (refused.delete(resource)) lastRecovery = ++events
    },
    refused(resource, retryAfterMs) {
      const now = ++events
      const before = refused.get(resource)
      const othersAnswered = before !== undefined && lastAnsweredSent > before.last
      if (before) before.last = now
      else refused.set(resource, { first: now, last: now, ownTries: 0, waitedMs: 0 })
      const isShort = retryAfterMs === null || retryAfterMs <= SHORT_PAUSE_MS
      if (isShort && (!before || lastRecovery > before.first)) return 'load'
      return othersAnswered ? 'own' : 'unclear'
    },
    ownWaitMs(resource, retryAfterMs) {
      const own = refused.get(resource)
      if (!own) return 0
      const waitMs = retryAfterMs ?? firstWaitMs * 2 ** own.ownTries
      own.ownTries += 1
      own.waitedMs += waitMs
      if (own.ownTries <= OWN_TRIES && own.waitedMs <= PATIENCE_MS) return waitMs
      // Another request for it in this run starts over.
      refused.delete(resource)
      return null
    },
  }
}
