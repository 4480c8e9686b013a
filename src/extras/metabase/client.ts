import { FatalError } from '#src/lib/errors.ts'
import {
  describeRedirect,
  type HttpClient,
  type HttpReply,
  type HttpRequest,
  isRedirect,
  openHttpClient,
} from '#src/lib/http/client.ts'
import { checkKey } from '#src/lib/http/credentials.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'

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

/** A call, as the explanation of its failure needs it. */
type Call = {
  /** `GET /api/card`. */
  readonly what: string
  readonly url: string
  readonly timeoutMs: number
  /** Whether an API key was sent, rather than a login or a session. */
  readonly hasKey: boolean
  /** Masked in the server's error texts. */
  readonly secrets: readonly string[]
}

/** Returns the error for an answer with any status but 2xx. */
function metabaseRefusal(reply: HttpReply, { what, url, hasKey, secrets }: Call): MetabaseError {
  const { status } = reply
  const at = `Metabase at ${url}`
  const text = serverText(reply, secrets)
  if (isRedirect(status)) {
    return new MetabaseError(`${at} ${describeRedirect(reply, 'METABASE_URL')}.`, 'redirected')
  }
  switch (status) {
    case 401:
      return new MetabaseError(
        hasKey
          ? `${at} rejects the API key (401). Create one in Admin, Authentication, API keys, for the group Administrators, and put it into the file of METABASE_API_KEY_FILE.`
          : `${at} rejects the login (401)${text}. Check --admin and --admin-password-file.`,
        'key_refused',
      )
    case 403:
      return new MetabaseError(
        `${at} does not allow ${what} (403). The API key must belong to the group Administrators.`,
        'forbidden',
      )
    case 404:
      return new MetabaseError(`${at} does not know ${what} (404). Check METABASE_URL.`, 'missing')
    case 503:
      return new MetabaseError(
        `${at} is not ready (503)${text}. It takes about a minute to start. Try again later.`,
        'starting',
      )
    default:
      return status < 500
        ? new MetabaseError(`${at} rejects ${what} (${status})${text}.`, 'rejected')
        : new MetabaseError(`${at} failed at ${what} (${status})${text}. Check its log.`, 'failed')
  }
}

/** Returns the error for a call without a complete answer. */
function explainMetabase({ trouble, message, code }: NetworkError, { url, timeoutMs }: Call): MetabaseError {
  const at = `Metabase at ${url}`
  switch (trouble) {
    case 'late':
      return new MetabaseError(
        `${at} did not answer within ${timeoutMs / 1000} s. Is it overloaded, or still starting?`,
        'slow',
      )
    case 'untrusted':
      return new MetabaseError(
        `${at} cannot be trusted: ${message} (${code}). Check METABASE_URL and the certificates.`,
        'unreachable',
      )
    default:
      return new MetabaseError(
        `Metabase does not answer at ${url} (${code}). Start it, or check METABASE_URL.`,
        'unreachable',
      )
  }
}

/** Returns the server's error text, on one line, without secrets; empty if it has none. */
function serverText({ body }: HttpReply, secrets: readonly string[]): string {
  const clean = secrets.reduce(
    (rest, secret) => rest.replaceAll(secret, '***'),
    errorText(body.toString('utf8')),
  )
  const line = clean.replace(/\s+/g, ' ').trim().slice(0, MAX_ERROR_CHARACTERS)
  return line ? `: ${line}` : ''
}

/** Returns the text of an error, which Metabase reports in `message`, in `errors` by property, or as plain text. */
function errorText(text: string): string {
  try {
    const body = JSON.parse(text) as unknown
    if (typeof body === 'string') return body
    const { message, errors } = body as { message?: unknown; errors?: unknown }
    const parts = [typeof message === 'string' ? message : '', errors ? JSON.stringify(errors) : '']
    const others = Object.entries(body as object).filter(([, value]) => typeof value === 'string')
    return parts.filter(Boolean).join(' ') || others.map(([name, value]) => `${name}: ${value}`).join(', ')
  } catch {
    return /^\s*</.test(text) ? '' : text
  }
}

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

/**
 * The parts of Metabase's answers that are read here. Its API is documented by its source code: each endpoint's
 * `defendpoint` names its parameters and body. What is sent and read here, and what `test/support/metabase/api.ts`
 * accepts, comes from these files of metabase/metabase below `src/metabase/`, each at the commit named (2025 and
 * 2026). What a running Metabase 0.63.2 did besides is in `docs/operating/metabase.md`.
 *
 *     session/api.clj 00309a4              settings_rest/api.clj 038837f       warehouses_rest/api.clj 004f0ce
 *     setup_rest/api.clj 038837f           permissions_rest/api.clj 02a18f3    queries_rest/api/card.clj 00f4566
 *     users_rest/api.clj 001e7ea           collections_rest/api.clj 00f7311    dashboards_rest/api.clj 0085ec3
 *     api_keys/api.clj 06f5232             warehouse_schema_rest/api/table.clj 038837f, field.clj 09511cc
 *     parameters/schema.cljc 0db24ad       lib/schema/parameter.cljc 01dcb8f, template_tag.cljc 0d6ec30
 *
 * The driver for Trino: `modules/drivers/starburst/`, its `metabase-plugin.yaml` 8545e80 and `starburst.clj` 50ed6a8.
 * DuckDB's driver: motherduckdb/metabase_duckdb_driver, `src/metabase/driver/duckdb.clj` 021b264 and
 * `resources/metabase-plugin.yaml` 46ab502.
 */

/** `GET /api/session/properties`, which needs no login: public settings. */
export type Properties = {
  readonly 'has-user-setup': boolean
  /** Null once there is a user. */
  readonly 'setup-token': string | null
  readonly version?: { readonly tag?: string }
}

/** `GET /api/database/:id`. */
export type MetabaseDatabase = {
  readonly id: number
  readonly name: string
  readonly engine: string
  readonly description: string | null
  /** Absent if this user may not change the database. */
  readonly details?: Readonly<Record<string, unknown>>
  /** Seconds for which answers are kept; absent or null if it is not set here. Paid editions only. */
  readonly cache_ttl?: number | null
  readonly initial_sync_status: 'incomplete' | 'complete' | 'aborted'
}

export type MetabaseField = {
  readonly id: number
  readonly name: string
  readonly display_name: string
  readonly description: string | null
  readonly semantic_type: string | null
  readonly fk_target_field_id: number | null
  readonly settings: Readonly<Record<string, unknown>> | null
}

/** A table in the answer to `GET /api/database/:id/metadata`. */
export type MetabaseTable = {
  readonly id: number
  readonly name: string
  readonly schema: string
  readonly display_name: string
  readonly description: string | null
  /** Null if people see it. */
  readonly visibility_type?: string | null
  readonly fields: readonly MetabaseField[]
}

/** `GET /api/setting`, an element of the list. */
export type MetabaseSetting = {
  readonly key: string
  /** Null if it is the default. */
  readonly value: unknown
  readonly is_env_setting: boolean
}

/** A collection; the root, which is never ours, has the id `root`. */
export type MetabaseCollection = {
  readonly id: number
  readonly name: string
  readonly description?: string | null
  /** Whose own it is; others may not see what is in it. */
  readonly personal_owner_id?: number | null
}

/** A card in `GET /api/card`, or a dashboard in `GET /api/dashboard`. */
export type MetabaseItem = {
  readonly id: number
  readonly name: string
  readonly description: string | null
  readonly collection_id?: number | null
  /** Of a card. */
  readonly visualization_settings?: Readonly<Record<string, unknown>> | null
  /** Of a dashboard. */
  readonly points_of_interest?: string | null
  /** A person, or the user that Metabase has for an API key. */
  readonly creator?: { readonly id: number; readonly email?: string } | null
  /** In the trash. */
  readonly archived?: boolean
}

export type MetabaseDashcard = {
  readonly id: number
  readonly card_id: number | null
  readonly dashboard_tab_id?: number | null
} & Readonly<Record<string, unknown>>

/** `GET /api/dashboard/:id`. */
export type MetabaseDashboard = {
  readonly id: number
  readonly name: string
  readonly description: string | null
  readonly archived?: boolean
  readonly dashcards: readonly MetabaseDashcard[]
  readonly tabs?: readonly { readonly id: number; readonly name: string }[]
}
