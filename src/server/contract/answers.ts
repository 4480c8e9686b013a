import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { Refusal } from './source.ts'

/** The `error` code for each status; the contract has its own for 400 (docs/contract.md#unknown-status). */
const ERRORS: Readonly<Record<number, string>> = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  410: 'gone',
  413: 'too_large',
  414: 'url_too_long',
  415: 'unsupported_media_type',
  429: 'too_many_requests',
  503: 'unavailable',
}

/** Maximum length of a path repeated in an answer. */
const MAX_SHOWN_PATH = 200

/** Sends the Error object (docs/contract.md#error), with a sentence for people in `detail`. */
export function sendError(
  context: Context,
  status: ContentfulStatusCode,
  detail: string,
  code: string | null = null,
): Response {
  return context.json({ error: code ?? ERRORS[status] ?? 'internal_error', detail }, status)
}

/** Answers a path without a route, in any process. */
export function sendNoSuchRoute(context: Context): Response {
  const path = context.req.path.slice(0, MAX_SHOWN_PATH)
  return sendError(context, 404, `There is nothing at ${path}. GET / lists what is available.`)
}

export function sendWrongMethod(context: Context, methods: readonly string[]): Response {
  const allowed = methods.join(', ')
  context.header('Allow', allowed)
  return sendError(
    context,
    405,
    `${context.req.path} does not support ${context.req.method}. Use ${allowed}.`,
  )
}

/** Sends the answer to an error by which a route refused a request; null if the route failed instead. */
export function sendRefusal(context: Context, error: Error): Response | null {
  if (error instanceof HTTPException) return sendError(context, error.status, error.message)
  if (!(error instanceof Refusal)) return null
  if (error.retryAfterSeconds !== null) context.header('Retry-After', String(error.retryAfterSeconds))
  if (error.status === 401) context.header('WWW-Authenticate', 'Bearer')
  return sendError(context, error.status, error.message, error.code)
}

/** Sends the answer to a request on which this program failed; the log has the details. */
export function sendFault(context: Context): Response {
  return sendError(context, 500, 'Something went wrong. See the log.')
}
