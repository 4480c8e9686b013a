import { type HttpClient, type HttpReply, type HttpRequest, openHttpClient } from '#src/lib/http/client.ts'
import { checkKey } from '#src/lib/http/credentials.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import { type Call, explainMetabase, MetabaseError, metabaseRefusal } from './metabase_error.ts'

/** The metadata of a whole database is some 2 MB. */
const MAX_BODY_BYTES = 32 * 1024 * 1024

/** How requests authenticate: with an API key, or with a user's session. */
type Identity = { readonly apiKey: string } | { readonly session: string }

type Query = Readonly<Record<string, string | number | boolean>>

/**
 * Metabase's REST API. Every call resolves with the JSON of the answer (null if it is empty) and rejects with
 * MetabaseError, or with InterruptedError if the signal was aborted.
 */
export type Metabase = {
  readonly url: string
  get<T>(path: string, query?: Query): Promise<T>
  post<T>(path: string, body?: object): Promise<T>
  put<T>(path: string, body: object): Promise<T>
  delete(path: string): Promise<void>
  /** Sets the identity of all later calls. */
  identify(identity: Identity | null): void
  /** Writes are calls that change something, except logging in and out. */
  readonly stats: { requests: number; writes: number }
  close(): Promise<void>
}

/** Calls at the same time: Metabase serves people, too. */
export const CONNECTIONS = 4
/** Metabase opens the new file of a database before it answers. */
const CALL_WITHIN_MS = 15_000

type MetabaseOptions = {
  /** Origin, and path if it is served below one; no slash at the end. */
  readonly url: string
  readonly apiKey?: string | null
  /** For a complete call. */
  readonly timeoutMs?: number
  readonly signal: AbortSignal
  /** Masked in the server's error texts, together with the identity. */
  readonly secrets?: readonly string[]
}

/** Opens a connection to Metabase; nothing is sent before the first call. */
export function createMetabase(options: MetabaseOptions): Metabase {
  const { url, timeoutMs = CALL_WITHIN_MS } = options
  const prefix = new URL(url).pathname.replace(/(?<!\/)\/+$/, '')
  const stats = { requests: 0, writes: 0 }
  const client = openHttpClient({
    url,
    connections: CONNECTIONS,
    silenceMs: timeoutMs,
    answerMs: timeoutMs,
    limit: `${timeoutMs / 1000} s`,
    maxBodyBytes: MAX_BODY_BYTES,
    signal: options.signal,
  })
  let identity: Identity | null = options.apiKey ? { apiKey: options.apiKey } : null

  async function call<T>(method: HttpRequest['method'], path: string, body?: object): Promise<T> {
    stats.requests += 1
    if (method !== 'GET' && path !== '/api/session') stats.writes += 1
    const request = { method, path: `${prefix}${path}`, ...content(body) }
    const headers = { accept: 'application/json', ...credentials(identity), ...request.headers }
    return await answered<T>(
      client,
      { ...request, headers },
      {
        what: `${method} ${path.replace(/\?.*/, '')}`,
        url,
        timeoutMs,
        hasKey: identity !== null && 'apiKey' in identity,
        secrets: [...(options.secrets ?? []), ...Object.values(identity ?? {})].filter(Boolean),
      },
    )
  }

  return {
    url,
    stats,
    get: (path, query = {}) => call('GET', `${path}${queryString(query)}`),
    post: (path, body) => call('POST', path, body),
    put: (path, body) => call('PUT', path, body),
    delete: path => call('DELETE', path),
    identify: one => {
      identity = one
    },
    close: () => client.close(),
  }
}

async function answered<T>(client: HttpClient, request: HttpRequest, call: Call): Promise<T> {
  const reply = await client.send(request).catch(error => {
    throw error instanceof NetworkError ? explainMetabase(error, call) : error
  })
  if (reply.isCut) {
    throw new MetabaseError(
      `The answer has more than ${MAX_BODY_BYTES / 1024 / 1024} MiB, more than Metabase sends. Check METABASE_URL.`,
      'failed',
    )
  }
  if (reply.status >= 200 && reply.status < 300) return parsed<T>(reply, call.url)
  throw metabaseRefusal(reply, call)
}

function queryString(query: Query): string {
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))
  return search.size > 0 ? `?${search}` : ''
}

function content(body: object | undefined): Pick<HttpRequest, 'headers' | 'body'> {
  if (body === undefined) return { headers: {} }
  return { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

function credentials(identity: Identity | null): Readonly<Record<string, string>> {
  if (!identity) return {}
  const [key = ''] = Object.values(identity)
  checkKey(key, 'The API key in the file of METABASE_API_KEY_FILE')
  return 'apiKey' in identity ? { 'x-api-key': identity.apiKey } : { 'x-metabase-session': identity.session }
}

function parsed<T>({ body }: HttpReply, url: string): T {
  const text = body.toString('utf8')
  try {
    return (text === '' ? null : JSON.parse(text)) as T
  } catch {
    throw new MetabaseError(
      `Metabase at ${url} does not answer as Metabase does (expected JSON). Check METABASE_URL.`,
      'failed',
    )
  }
}
