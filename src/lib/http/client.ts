import type { LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
// Only this: the whole library takes twice as long to load, and each run loads it.
import Pool from 'undici/lib/dispatcher/pool.js'
import { InterruptedError } from '#src/lib/errors.ts'
import { explainNetwork, NetworkError } from './network_error.ts'

/** How much of a body over the bound is kept, as evidence. */
const CUT_BYTES = 4096

export type HttpClientOptions = {
  /** Only its origin is used: each request has its complete path. */
  readonly url: string
  /** How many requests can be under way at once. */
  readonly connections: number
  /** The longest silence: before the connection, before the headers, and between two parts of the body. */
  readonly silenceMs: number
  /** For the whole answer: a server could send a body forever without a longer silence. */
  readonly answerMs: number
  /** Names the limit in messages: a setting, or a duration. */
  readonly limit: string
  /** A larger body is cut: a hostile one must not fill the memory. */
  readonly maxBodyBytes: number
  /** An answer counts once its status is there, even if the rest is late, lost or too long. */
  readonly isStatusEnough?: true
  /** Aborted to give up all requests. */
  readonly signal?: AbortSignal
  /** Resolves the host's name; by default, as the system does. */
  readonly lookup?: LookupFunction
}

export type HttpRequest = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export type HttpReply = {
  readonly status: number
  readonly headers: Dispatcher.ResponseData['headers']
  /** If `isCut`, only the beginning: at most 4 KiB. */
  readonly body: Buffer
  readonly isCut: boolean
}

/**
 * Requests to one server, with the same policy for every server that this program calls. HTTP/1.1, one request at a
 * time per connection. Redirects are never followed, so that no other server receives a key. Bodies are bounded and
 * not compressed, because a bound on the bytes received would not bound what they decompress to.
 */
export type HttpClient = {
  /**
   * Resolves with the whole answer, whatever its status. Rejects with NetworkError, or with InterruptedError if the
   * signal is aborted.
   */
  send(request: HttpRequest): Promise<HttpReply>
  close(): Promise<void>
}

/** Opens a pool of keep-alive connections. Sends nothing before the first request. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const { silenceMs } = options
  const pool = new Pool(new URL(options.url).origin, {
    connections: options.connections,
    allowH2: false,
    pipelining: 1,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    connect: { timeout: silenceMs, ...(options.lookup ? { lookup: options.lookup } : {}) },
  })
  return {
    send: request => send(pool, request, options),
    close: () => pool.destroy(),
  }
}

async function send(pool: Pool, request: HttpRequest, options: HttpClientOptions): Promise<HttpReply> {
  const { answerMs, limit, signal } = options
  if (signal?.aborted) throw new InterruptedError()
  const answer = new Answer(options)
  const stop = () => answer.giveUp(new InterruptedError())
  signal?.addEventListener('abort', stop)
  const timer = setTimeout(() => {
    answer.giveUp(new NetworkError('late', 'the answer took too long', null))
  }, answerMs)
  const headers = { 'user-agent': 'editais-sync', 'accept-encoding': 'identity', ...request.headers }
  try {
    pool.dispatch({ ...request, headers }, answer)
    return await answer.reply
  } catch (error) {
    throw error === answer.givenUp ? error : explainNetwork(error, limit)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

/**
 * Collects one answer. undici's `request` would do so with a stream, a signal and their listeners for every request:
 * that takes twice the CPU, and a first sync sends one request a notice.
 */
class Answer implements Dispatcher.DispatchHandler {
  readonly reply: Promise<HttpReply>
  givenUp: Error | null = null
  readonly #options: HttpClientOptions
  readonly #settle: PromiseWithResolvers<HttpReply>
  #controller: Dispatcher.DispatchController | null = null
  #head: Pick<HttpReply, 'status' | 'headers'> | null = null
  #chunks: Buffer[] = []
  #size = 0

  constructor(options: HttpClientOptions) {
    this.#options = options
    this.#settle = Promise.withResolvers()
    this.reply = this.#settle.promise
  }

  /** Drops the connection, or never opens it. */
  giveUp(reason: Error): void {
    this.givenUp = reason
    this.#fail(reason)
    this.#controller?.abort(reason)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.givenUp) controller.abort(this.givenUp)
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Dispatcher.ResponseData['headers'],
  ): void {
    // 1xx only announces an answer.
    if (status >= 200) this.#head = { status, headers }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#size += chunk.length
    if (this.#size <= this.#options.maxBodyBytes) return
    this.#resolve({ body: Buffer.concat(this.#chunks, Math.min(this.#size, CUT_BYTES)), isCut: true })
    controller.abort(new Error('the body is too large'))
  }

  onResponseEnd(): void {
    const [first, ...others] = this.#chunks
    const body = first && others.length === 0 ? first : Buffer.concat(this.#chunks, this.#size)
    this.#resolve({ body, isCut: false })
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    this.#fail(error)
  }

  #fail(error: Error): void {
    if (this.#head && this.#options.isStatusEnough) this.#resolve(NOTHING)
    else this.#settle.reject(error)
  }

  #resolve(body: Body): void {
    if (this.#head) this.#settle.resolve({ ...this.#head, ...body })
  }
}

type Body = Pick<HttpReply, 'body' | 'isCut'>

const NOTHING: Body = { body: Buffer.alloc(0), isCut: true }

/** Returns the first value of a header; the name in lower case. */
export function findHeader({ headers }: Pick<HttpReply, 'headers'>, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Returns whether an answer leads to another address; 304 only says that nothing has changed. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400 && status !== 304
}

/** Against this, an address without a host of its own keeps this one. */
const SAME_SERVER = 'https://same-server.invalid'

/**
 * Returns what a redirect means, and what to do; the server is the subject. Names only the origin of the target: the rest of
 * the address may repeat what was sent.
 */
export function describeRedirect(reply: Pick<HttpReply, 'status' | 'headers'>, setting: string): string {
  const location = findHeader(reply, 'location')
  const redirects = `redirects (${reply.status})`
  if (!location) return `${redirects} without a target. Check ${setting}`
  const target = readTarget(location)
  if (target === null) return `${redirects} to an address that is not HTTP. Check ${setting}`
  return `${redirects} to ${target}. Redirects are not followed, so that no other server receives the key. Set ${setting} to the final address`
}

/** Returns where a Location header leads, without its path; null if it is not an address of HTTP (`javascript:`, `http://[`). */
function readTarget(location: string): string | null {
  const url = URL.parse(location, SAME_SERVER)
  if (!url || !/^https?:$/.test(url.protocol)) return null
  if (url.origin === SAME_SERVER) return 'another path'
  // `//host/path` keeps the protocol.
  return URL.canParse(location) ? url.origin : `//${url.host}`
}
