import { type Answer, ask } from './ask.js'
import { ApiError, errorOf } from './errors.js'
import { Patience } from './patience.js'

export type ServerOptions = {
  /** The address of the server, such as `https://editais.example.com`; it may have a path. */
  readonly url: string | URL
  /** An API key of the server (`editais keys create`). */
  readonly apiKey: string
  /** Instead of the runtime's own, such as one with a proxy. */
  readonly fetch?: typeof globalThis.fetch
  /** How long a call waits in all before it repeats requests that failed; 60 s by default, 0 to repeat none. */
  readonly maxWaitMs?: number
  /** A connection has failed if nothing arrives for this long; 30 s by default. */
  readonly silenceMs?: number
}

/** By name; undefined ones are left out. */
export type Values = Readonly<Record<string, unknown>>

export type Request = {
  /** With `{name}` for the values of `inPath`. */
  readonly path: string
  readonly inPath?: Values | undefined
  readonly query?: Values | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  /** How much longer than others this answer may take to begin. */
  readonly waitMs?: number
}

export type Document = { readonly status: number; readonly headers: Headers; readonly text: string }

/** One server, with a key of it. */
export class Server {
  readonly #base: URL
  readonly #apiKey: string
  readonly #fetch: typeof globalThis.fetch
  readonly #maxWaitMs: number
  readonly #silenceMs: number

  constructor({
    url,
    apiKey,
    fetch = globalThis.fetch,
    maxWaitMs = 60_000,
    silenceMs = 30_000,
  }: ServerOptions) {
    this.#base = baseOf(url)
    this.#apiKey = usable(apiKey)
    this.#fetch = fetch
    this.#maxWaitMs = maxWaitMs
    this.#silenceMs = silenceMs
  }

  patience(signal: AbortSignal | undefined): Patience {
    return new Patience(this.#maxWaitMs, signal)
  }

  /** A whole answer, as text: 200, or 304 if the request has a condition. */
  async document(request: Request): Promise<Document> {
    return await this.patience(request.signal).persist(async () => {
      const answer = await this.open(request)
      const { status, headers } = answer
      return { status, headers, text: await textOf(answer) }
    })
  }

  /**
   * The beginning of an answer: 200, 206 or 304.
   * @throws ApiError for any other status, ConnectionFailed, or the signal's reason.
   */
  async open({ path, inPath, query, headers, signal, waitMs = 0 }: Request): Promise<Answer> {
    const answer = await ask(this.#fetch, {
      url: this.#addressOf(path, inPath, query),
      headers: { ...headers, authorization: `Bearer ${this.#apiKey}` },
      signal,
      silenceMs: this.#silenceMs + waitMs,
    })
    const { status } = answer
    if (status === 200 || status === 206 || status === 304) return answer
    const request = `GET ${path}`
    if (status < 400) {
      answer.close()
      throw redirected(request, status)
    }
    // In case that a proxy repeats headers in its answer.
    const body = (await textOf(answer)).replaceAll(this.#apiKey, '…')
    const { origin, headers: received } = answer
    throw errorOf({ request, origin, status, headers: received }, body)
  }

  #addressOf(path: string, inPath: Values = {}, query: Values = {}): URL {
    const named = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(inPath[name])))
    const url = new URL(`.${named}`, this.#base)
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value))
    return url
  }
}

/** @throws TypeError if it is not the address of a server. */
function baseOf(url: string | URL): URL {
  const base = new URL(url)
  if (!/^https?:$/.test(base.protocol) || base.username || base.password || base.search || base.hash)
    throw new TypeError(
      'url must be an address such as https://editais.example.com, without a user or parameters.',
    )
  if (!base.pathname.endsWith('/')) base.pathname += '/'
  return base
}

/** Files often have a line end after the key. @throws TypeError that does not show it, as that of `fetch` would. */
function usable(apiKey: string): string {
  const key = apiKey.trim()
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new TypeError('apiKey is empty, or has a character that no key has. Copy it again.')
}

function redirected(request: string, status: number): ApiError {
  const detail =
    'The server redirects to another address, to which the key is not sent. Set url to that address.'
  return new ApiError({ ...{ request, status, detail }, error: 'redirected', retryAfterMs: null })
}

async function textOf(answer: Answer): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for (let bytes = await answer.read(); bytes !== null; bytes = await answer.read())
    text += decoder.decode(bytes, { stream: true })
  return text + decoder.decode()
}
