import type { Dispatcher } from 'undici'
import { UNAVAILABLE } from '#schema/unavailable.ts'
import { EXIT, ExcludedError, FatalError, messageOf, RequestError, systemCode } from '#src/platform/errors.ts'

/** Error bodies are short; parsing megabytes of brackets would take gigabytes. */
const MAX_ERROR_BYTES = 64 * 1024

/** Worth a retry: the server or the network failed, not the request. */
export class TransientError extends Error {
  override readonly name = 'TransientError'
  readonly refused: boolean

  constructor(message: string, refused = false) {
    super(message)
    this.refused = refused
  }
}

/** The error for an answer that a retry would not change. */
export function refusal(status: number, response: Dispatcher.ResponseData, body: Buffer | null): Error {
  const detail = errorDetail(body)
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
  if (status >= 300 && status < 400) {
    return new RequestError(
      `the API redirects (${status}) to ${redirectTarget(response)}. Redirects are not followed, so that no other server receives the key. Set API_BASE_URL to the final address`,
    )
  }
  return new RequestError(`the API answered ${status}${detail}`)
}

/** Only the origin: the rest of the URL may repeat what was sent. */
function redirectTarget(response: Dispatcher.ResponseData): string {
  const location = header(response, 'location') ?? ''
  return URL.canParse(location) ? new URL(location).origin : 'another path'
}

/** The server's explanation, for a message; empty if there is none that can be read. */
export function errorDetail(body: Buffer | null): string {
  const { error, detail } = errorOf(body)
  const explanation = [error, detail].filter(part => typeof part === 'string').join(': ')
  return explanation ? `: ${printable(explanation)}` : ''
}

/** The error if the server reports that it lacks this one analysis (`schema/unavailable.ts`); otherwise null. */
export function unavailable(status: number, body: Buffer | null): RequestError | null {
  if (status !== 503) return null
  const { error, detail } = errorOf(body)
  const why = typeof detail === 'string' ? `: ${printable(detail)}` : ''
  if (error === UNAVAILABLE.excluded) return new ExcludedError(`the API does not offer this analysis${why}`)
  if (error === UNAVAILABLE.now) return new RequestError(`the API does not have this analysis now${why}`)
  return null
}

function errorOf(body: Buffer | null): { readonly error?: unknown; readonly detail?: unknown } {
  if (body === null || body.length > MAX_ERROR_BYTES) return {}
  try {
    return JSON.parse(body.toString('utf8')) ?? {}
  } catch {
    return {}
  }
}

/** Makes text safe inside a message: a terminal would execute control characters. */
function printable(text: string): string {
  return text
    .slice(0, 200)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .replace(/\.$/, '')
}

export function header(response: Dispatcher.ResponseData, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) ? value[0] : value
}

/** Explains a network error. Programming errors are returned unchanged and never retried. */
export function explain(error: unknown, baseUrl: string): unknown {
  if (error instanceof FatalError || error instanceof RequestError || error instanceof TransientError)
    return error
  const code = systemCode(error)
  if (code === undefined) return error
  if (/^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_(VERIFY|GET))/.test(code)) {
    return new FatalError(
      `${baseUrl}: the TLS connection cannot be trusted (${code}). Check API_BASE_URL and the certificates.`,
    )
  }
  const meaning = NETWORK_ERRORS[code]
  if (meaning) return new TransientError(`${meaning} (${new URL(baseUrl).host}, ${code})`)
  if (/^(UND_ERR|HPE_|E[A-Z]+$)/.test(code)) return new TransientError(`${messageOf(error)} (${code})`)
  return error
}

const NETWORK_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name lookup failed',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host is unreachable',
  ENETUNREACH: 'the network is unreachable',
  UND_ERR_SOCKET: 'the connection was closed',
  UND_ERR_CONNECT_TIMEOUT: 'no connection within API_TIMEOUT_MS',
  UND_ERR_HEADERS_TIMEOUT: 'no answer within API_TIMEOUT_MS',
  UND_ERR_BODY_TIMEOUT: 'the answer stalled for longer than API_TIMEOUT_MS',
}
