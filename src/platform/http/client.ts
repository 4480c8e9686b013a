import { type Dispatcher, Pool } from 'undici'
import { InterruptedError } from '#src/platform/errors.ts'
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
    connect: { timeout: silenceMs },
  })
  return {
    send: request => send(pool, request, options),
    close: () => pool.destroy(),
  }
}

async function send(pool: Pool, request: HttpRequest, options: HttpClientOptions): Promise<HttpReply> {
  const { answerMs, limit, signal } = options
  if (signal?.aborted) throw new InterruptedError()
  const call = new AbortController()
  const stop = () => call.abort()
  signal?.addEventListener('abort', stop)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    call.abort()
  }, answerMs)
  try {
    const response = await pool.request({
      ...request,
      headers: { 'user-agent': 'editais-sync', 'accept-encoding': 'identity', ...request.headers },
      signal: call.signal,
    })
    const { statusCode: status, headers } = response
    const read = readBody(response.body, options.maxBodyBytes)
    return { status, headers, ...(await (options.isStatusEnough ? read.catch(() => NOTHING) : read)) }
  } catch (error) {
    if (signal?.aborted) throw new InterruptedError()
    if (isLate) throw new NetworkError('late', 'the answer took too long', null)
    throw explainNetwork(error, limit)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

type Body = Pick<HttpReply, 'body' | 'isCut'>

const NOTHING: Body = { body: Buffer.alloc(0), isCut: true }

/** Over the bound, drops the connection and returns the beginning. */
function readBody(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<Body> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    body.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size <= maxBytes) return
      resolve({ body: Buffer.concat(chunks, Math.min(size, CUT_BYTES)), isCut: true })
      body.destroy()
    })
    body.on('end', () =>
      resolve({ body: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks), isCut: false }),
    )
    body.on('error', reject)
  })
}

/** The first value of a header; the name in lower case. */
export function headerOf({ headers }: Pick<HttpReply, 'headers'>, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Whether an answer leads to another address; 304 only says that nothing has changed. */
export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400 && status !== 304
}

/** Against this, an address without a host of its own keeps this one. */
const SAME_SERVER = 'https://same-server.invalid'

/**
 * What a redirect means, and what to do; the server is the subject. Names only the origin of the target: the rest of
 * the address may repeat what was sent.
 */
export function describeRedirect(reply: Pick<HttpReply, 'status' | 'headers'>, setting: string): string {
  const location = headerOf(reply, 'location')
  const redirects = `redirects (${reply.status})`
  if (!location) return `${redirects} without a target. Check ${setting}`
  const target = targetOf(location)
  if (target === null) return `${redirects} to an address that is not HTTP. Check ${setting}`
  return `${redirects} to ${target}. Redirects are not followed, so that no other server receives the key. Set ${setting} to the final address`
}

/** Where a Location header leads, without its path; null if it is not an address of HTTP (`javascript:`, `http://[`). */
function targetOf(location: string): string | null {
  const url = URL.parse(location, SAME_SERVER)
  if (!url || !/^https?:$/.test(url.protocol)) return null
  if (url.origin === SAME_SERVER) return 'another path'
  // `//host/path` keeps the protocol.
  return URL.canParse(location) ? url.origin : `//${url.host}`
}
