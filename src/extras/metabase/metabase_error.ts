import { FatalError } from '#src/lib/errors.ts'
import { describeRedirect, type HttpReply, isRedirect } from '#src/lib/http/client.ts'
import type { NetworkError } from '#src/lib/http/network_error.ts'

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
export type Call = {
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
export function metabaseRefusal(reply: HttpReply, { what, url, hasKey, secrets }: Call): MetabaseError {
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
export function explainMetabase(
  { trouble, message, code }: NetworkError,
  { url, timeoutMs }: Call,
): MetabaseError {
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
