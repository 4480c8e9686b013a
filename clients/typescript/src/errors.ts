/** What an answer reports of a failure. */
type Refused = {
  /** The method and path of the request, without its parameters. */
  readonly request: string
  readonly status: number
  readonly error: string
  readonly detail: string
  readonly retryAfterMs: number | null
}

/** The server refused a request. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError'
  /** Of HTTP. */
  readonly status: number
  /** A code for programs, such as `invalid_parameter`. */
  readonly error: string
  /** A sentence for people; empty if the server gave none. */
  readonly detail: string
  /** How long the server asks to wait; null if it does not. */
  readonly retryAfterMs: number | null

  constructor({ request, status, error, detail, retryAfterMs }: Refused) {
    super(`${request}: ${status} ${error}.${detail === '' ? '' : ` ${detail}`}`)
    this.status = status
    this.error = error
    this.detail = detail
    this.retryAfterMs = retryAfterMs
  }

  /** There is no such notice (404), or its current analysis is not there now (503). Other requests succeed. */
  get isMissing(): boolean {
    return this.status === 404 || this.error.startsWith('analysis_')
  }
}

/**
 * The log behind a cursor of the feed was rewritten (410): get the cursor of `since: 'latest'`, read everything once,
 * then follow that cursor.
 */
export class CursorGone extends ApiError {
  override readonly name = 'CursorGone'
}

/**
 * The snapshot of a search or of an export is no longer there (410, or another snapshot instead of the rest): begin
 * again, and forget what was read.
 */
export class SnapshotGone extends ApiError {
  override readonly name = 'SnapshotGone'
}

/** There was no answer of the server, or only its beginning; `cause` has the reason. */
export class ConnectionFailed extends Error {
  override readonly name = 'ConnectionFailed'

  constructor(origin: string, cause: unknown) {
    const why = reasonOf(cause)
    super(`The connection to ${origin} failed${why}. Check the url, and whether the server is up.`, { cause })
  }
}

/** Runtimes hide the reason of a failed `fetch` in its cause. */
function reasonOf(error: unknown): string {
  const { cause = error } = error as { readonly cause?: unknown }
  const { code, message } = cause as { readonly code?: unknown; readonly message?: unknown }
  const why = typeof code === 'string' ? code : message
  return typeof why === 'string' && why !== '' ? ` (${why})` : ''
}

/** Codes of the server that programs handle in a way of their own. */
const CLASSES: Readonly<Record<string, typeof ApiError>> = {
  cursor_gone: CursorGone,
  snapshot_gone: SnapshotGone,
}

/** What to do if the server gave no sentence. */
const ADVICE: Readonly<Record<number, string>> = {
  401: 'The API key is wrong, expired or revoked. Set apiKey to a valid one; the operator creates it with: editais keys create.',
}

/** Statuses by which a proxy reports that the server behind it does not answer. */
const OF_PROXIES: ReadonlySet<number> = new Set([502, 503, 504])

/** The error of an answer that is neither a document nor 304. @param body as text. */
export function errorOf(
  answer: {
    readonly request: string
    readonly origin: string
    readonly status: number
    readonly headers: Headers
  },
  body: string,
): ApiError | ConnectionFailed {
  const { request, origin, status, headers } = answer
  const { error, detail } = parsed(body)
  const code = typeof error === 'string' ? error : 'unexpected_answer'
  if (code === 'unexpected_answer' && OF_PROXIES.has(status))
    return new ConnectionFailed(origin, new Error(`a proxy answered ${status}`))
  const Class = CLASSES[code] ?? ApiError
  return new Class({
    ...{ request, status, error: code },
    detail: typeof detail === 'string' ? detail : (ADVICE[status] ?? ''),
    retryAfterMs: retryAfterMs(headers.get('retry-after')),
  })
}

function parsed(body: string): { readonly error?: unknown; readonly detail?: unknown } {
  try {
    return Object(JSON.parse(body))
  } catch {
    // Not from the API: perhaps from a proxy in front of it.
    return {}
  }
}

/** `Retry-After` is a number of seconds or a date. */
function retryAfterMs(header: string | null): number | null {
  if (header === null) return null
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}
