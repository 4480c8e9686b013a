import { type Dispatcher, Pool } from 'undici'
import { EXIT, FatalError, InterruptedError, systemCode } from '#src/platform/errors.ts'

/** The metadata of a whole database is some 2 MB. */
const MAX_BODY_BYTES = 32 * 1024 * 1024
/** How much of Metabase's error text a message repeats. */
const MAX_ERROR_CHARACTERS = 300

/** Why a call failed, for code; the message is for people. */
export type Trouble =
  /** No connection, or a broken one. */
  | 'unreachable'
  | 'slow'
  /** Metabase is still starting (503). */
  | 'starting'
  | 'redirected'
  | 'key_refused'
  /** The key is valid, but not an administrator's. */
  | 'forbidden'
  | 'missing'
  /** Metabase rejects this request (other 4xx): wrong settings, or a different version. */
  | 'rejected'
  /** 5xx, or an answer that does not come from Metabase. */
  | 'failed'

/** A failed call of Metabase's API; the message says what to do and never holds a secret. */
export class MetabaseError extends FatalError {
  readonly trouble: Trouble

  constructor(message: string, trouble: Trouble) {
    super(message)
    this.trouble = trouble
  }
}

/** How requests authenticate: with an API key, or with a user's session. */
export type Identity = { readonly apiKey: string } | { readonly session: string }

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
  /** All later calls use this identity. */
  identify(identity: Identity | null): void
  /** Writes are calls that change something, except logging in and out. */
  readonly stats: { requests: number; writes: number }
  close(): Promise<void>
}

export type MetabaseOptions = {
  /** Origin, and path if it is served below one; no slash at the end. */
  readonly url: string
  readonly apiKey?: string | null
  /** For a complete call. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Masked in the server's error texts, together with the identity. */
  readonly secrets?: readonly string[]
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** Opens a connection to Metabase; nothing is sent before the first call. */
export function createMetabase(options: MetabaseOptions): Metabase {
  const { origin, pathname } = new URL(options.url)
  const prefix = pathname.replace(/\/+$/, '')
  const stats = { requests: 0, writes: 0 }
  // Redirects are not followed, so that the key is sent nowhere else.
  const pool = new Pool(origin, { connections: 1, allowH2: false, connect: { timeout: options.timeoutMs } })
  let identity: Identity | null = options.apiKey ? { apiKey: options.apiKey } : null

  async function call<T>(method: Method, path: string, body?: object, query: Query = {}): Promise<T> {
    stats.requests += 1
    if (method !== 'GET' && path !== '/api/session') stats.writes += 1
    const deadline = AbortSignal.timeout(options.timeoutMs)
    const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))
    try {
      const response = await pool.request({
        method,
        path: `${prefix}${path}${search.size > 0 ? `?${search}` : ''}`,
        headers: {
          accept: 'application/json',
          'user-agent': 'editais-sync',
          ...credentials(identity),
          ...(body ? { 'content-type': 'application/json' } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
        signal: AbortSignal.any([options.signal, deadline]),
      })
      const text = await readText(response.body)
      if (response.statusCode >= 200 && response.statusCode < 300) return parsed<T>(text, options.url)
      throw refusal(response, `${method} ${path}`, serverText(text))
    } catch (error) {
      if (error instanceof FatalError) throw error
      if (options.signal.aborted) throw new InterruptedError()
      throw explain(error, deadline.aborted)
    }
  }

  /** The server's error text, on one line, without secrets. */
  function serverText(text: string): string {
    const secrets = [...(options.secrets ?? []), ...Object.values(identity ?? {})].filter(Boolean)
    const clean = secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), errorText(text))
    const line = clean.replace(/\s+/g, ' ').trim().slice(0, MAX_ERROR_CHARACTERS)
    return line ? `: ${line}` : ''
  }

  function refusal(response: Dispatcher.ResponseData, what: string, text: string): MetabaseError {
    const { statusCode: status } = response
    const at = `Metabase at ${options.url}`
    if (status >= 300 && status < 400) {
      return new MetabaseError(
        `${at} redirects (${status}) to ${redirectTarget(response)}. Redirects are not followed, so that the key is sent nowhere else. Set METABASE_URL to the final address.`,
        'redirected',
      )
    }
    if (status === 401) {
      return new MetabaseError(
        identity && 'apiKey' in identity
          ? `${at} rejects the API key (401). Create one in Admin, Authentication, API keys, for the group Administrators, and put it into the file of METABASE_API_KEY_FILE.`
          : `${at} rejects the login (401)${text}. Check METABASE_ADMIN_EMAIL and METABASE_ADMIN_PASSWORD_FILE.`,
        'key_refused',
      )
    }
    if (status === 403) {
      return new MetabaseError(
        `${at} does not allow ${what} (403). The API key must belong to the group Administrators.`,
        'forbidden',
      )
    }
    if (status === 404) {
      return new MetabaseError(`${at} does not know ${what} (404). Check METABASE_URL.`, 'missing')
    }
    if (status === 503) {
      return new MetabaseError(
        `${at} is not ready (503)${text}. It takes about a minute to start. Try again later.`,
        'starting',
      )
    }
    return status < 500
      ? new MetabaseError(`${at} rejects ${what} (${status})${text}.`, 'rejected')
      : new MetabaseError(`${at} failed at ${what} (${status})${text}. Check its log.`, 'failed')
  }

  /** Explains a network error; programming errors pass through. */
  function explain(error: unknown, late: boolean): unknown {
    const at = `Metabase at ${options.url}`
    if (late) {
      return new MetabaseError(
        `${at} did not answer within ${options.timeoutMs / 1000} s. Is it overloaded, or still starting?`,
        'slow',
      )
    }
    const code = systemCode(error)
    if (code === undefined) return error
    if (/^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_(VERIFY|GET))/.test(code)) {
      return new MetabaseError(
        `${at} cannot be trusted (${code}). Check METABASE_URL and the certificates.`,
        'unreachable',
      )
    }
    if (!/^(UND_ERR|HPE_|E[A-Z_]+$)/.test(code)) return error
    return new MetabaseError(
      `Metabase does not answer at ${options.url} (${code}). Start it, or check METABASE_URL.`,
      'unreachable',
    )
  }

  return {
    url: options.url,
    stats,
    get: (path, query) => call('GET', path, undefined, query),
    post: (path, body) => call('POST', path, body),
    put: (path, body) => call('PUT', path, body),
    delete: path => call('DELETE', path),
    identify: one => {
      identity = one
    },
    close: () => pool.destroy(),
  }
}

function credentials(identity: Identity | null): Record<string, string> {
  if (!identity) return {}
  // A value that is invalid in a header cannot be a key. The value itself is never shown.
  if (!Object.values(identity).every(secret => /^[\x21-\x7e]+$/.test(secret))) {
    throw new FatalError(
      'The API key in the file of METABASE_API_KEY_FILE contains white space or other characters that are invalid in a key. Copy it again.',
      EXIT.usage,
    )
  }
  return 'apiKey' in identity ? { 'x-api-key': identity.apiKey } : { 'x-metabase-session': identity.session }
}

async function readText(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    if (size > MAX_BODY_BYTES) {
      throw new MetabaseError(
        `The answer has more than ${MAX_BODY_BYTES / 1024 / 1024} MiB, more than Metabase sends. Check METABASE_URL.`,
        'failed',
      )
    }
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parsed<T>(text: string, url: string): T {
  try {
    return (text === '' ? null : JSON.parse(text)) as T
  } catch {
    throw new MetabaseError(
      `Metabase at ${url} does not answer as Metabase does (expected JSON). Check METABASE_URL.`,
      'failed',
    )
  }
}

/** Metabase reports an error in `message`, in `errors` by property, or as plain text. */
function errorText(text: string): string {
  try {
    const body = JSON.parse(text) as unknown
    if (typeof body === 'string') return body
    const { message, errors } = body as { message?: unknown; errors?: unknown }
    const parts = [typeof message === 'string' ? message : '', errors ? JSON.stringify(errors) : '']
    return parts.filter(Boolean).join(' ')
  } catch {
    return /^\s*</.test(text) ? '' : text
  }
}

/** Only the origin: the rest of the address may repeat what was sent. */
function redirectTarget({ headers }: Dispatcher.ResponseData): string {
  const { location } = headers
  return typeof location === 'string' && URL.canParse(location) ? new URL(location).origin : 'another path'
}
