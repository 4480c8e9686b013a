import { printable } from '#schema/text_key.ts'
import { UNAVAILABLE } from '#schema/unavailable.ts'
import { EXIT, ExcludedError, FatalError, RequestError } from '#src/lib/errors.ts'
import { describeRedirect, type HttpReply, isRedirect } from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'

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
export function isErrorOfApi(reply: HttpReply): boolean {
  const { error } = errorOf(reply)
  return typeof error === 'string' && ERROR_WORD.test(error)
}

/** Returns the error for a 404 that a gateway or a proxy may have sent in place of the API. It proves nothing about a notice. */
export function notOfApi({ status, body }: HttpReply): TransientError {
  const begin = printable(body.subarray(0, QUOTED_BYTES).toString('utf8').trim())
  const sent = begin === '' ? 'nothing' : `"${begin}"`
  return new TransientError(
    `${status} with ${sent} is not the answer of the API itself, so it proves nothing; check API_BASE_URL, and the gateway or proxy before the API`,
  )
}

/** Returns the server's explanation, for a message; empty if there is none that can be read. */
export function errorDetail(reply: HttpReply): string {
  const { error, detail } = errorOf(reply)
  const explanation = [error, detail].filter(part => typeof part === 'string').join(': ')
  return explanation ? `: ${quoteServer(explanation)}` : ''
}

/** Returns the error if the server reports that it lacks this one analysis (`schema/unavailable.ts`); otherwise null. */
export function unavailable(reply: HttpReply): RequestError | null {
  if (reply.status !== 503) return null
  const { error, detail } = errorOf(reply)
  const why = typeof detail === 'string' ? `: ${quoteServer(detail)}` : ''
  if (error === UNAVAILABLE.excluded) return new ExcludedError(`the API does not offer this analysis${why}`)
  if (error === UNAVAILABLE.now) return new RequestError(`the API does not have this analysis now${why}`)
  return null
}

function errorOf({ body, isCut }: HttpReply): { readonly error?: unknown; readonly detail?: unknown } {
  if (isCut || body.length > MAX_ERROR_BYTES) return {}
  try {
    return JSON.parse(body.toString('utf8')) ?? {}
  } catch {
    return {}
  }
}

/** Returns a server's words, safe inside a message. */
export function quoteServer(text: string): string {
  return printable(text.slice(0, 200)).replace(/\.$/, '')
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
