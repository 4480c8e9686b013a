import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Context } from 'hono'
import { accepts } from 'hono/accepts'
import { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import { type Json, Refusal } from './source.ts'

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
const MAX_REPEATED_PATH = 200

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
  const path = context.req.path.slice(0, MAX_REPEATED_PATH)
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

/** Returns whether a request asks for a page rather than for JSON, as browsers do. */
export function asksForHtml(context: Context): boolean {
  const supports = ['text/html', 'application/json']
  return accepts(context, { header: 'Accept', supports, default: 'application/json' }) === 'text/html'
}

/** Sends the answer to a request on which this program failed; the log has the details. */
export function sendFault(context: Context): Response {
  return sendError(context, 500, 'Something went wrong. See the log.')
}

/** Longer paths are cut, because people read log lines. */
const MAX_LOGGED_PATH = 200
/** Text beyond this would never be shown, even if all before it were encoded; searching it would be slow. */
const MAX_LOGGED_READ = 4 * MAX_LOGGED_PATH
/** `Bearer`, the key, and the rest. */
const MAX_HEADER_WORDS = 3
/** A shorter word could occur in any path. */
const MIN_SECRET_LENGTH = 8
/** The visible start of a key made by `editais keys`; the rest is secret. */
const OWN_KEY = /(edk_[0-9a-z]{1,8})[0-9a-z_-]*/gi
/** Text this long and opaque is another system's key or a token, not a notice id. */
const OPAQUE = /(?<![\w+=~-])([\w+=~-]{6})[\w+=~-]{34,}(?![\w+=~-])/g

/**
 * Returns a path that is safe to log: it may contain a key, or control characters that a terminal would execute.
 * @param secrets credentials that the request sent; they are masked everywhere in the path.
 */
export function maskPath(path: string, secrets: readonly (string | undefined)[] = []): string {
  let shown = decoded(path.slice(0, MAX_LOGGED_READ))
  for (const word of splitSecrets(secrets)) shown = shown.replaceAll(word, '…')
  return shown
    .replaceAll(OWN_KEY, '$1…')
    .replaceAll(OPAQUE, '$1…')
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd')
    .slice(0, MAX_LOGGED_PATH)
}

/** Returns the scheme and key of a header; a header with more words holds no key. */
function splitSecrets(secrets: readonly (string | undefined)[]): string[] {
  return secrets.flatMap(secret =>
    (secret ?? '').split(' ', MAX_HEADER_WORDS).filter(word => word.length >= MIN_SECRET_LENGTH),
  )
}

/** Decodes each part separately, so that an encoded key is found even if another part cannot be decoded. */
function decoded(path: string): string {
  return path.replaceAll(/(?:%[0-9a-f]{2})+/gi, encoded => {
    try {
      return decodeURIComponent(encoded)
    } catch {
      return encoded
    }
  })
}

/** Smaller bodies fit into one packet uncompressed. */
const COMPRESS_FROM_BYTES = 1400

/** Sends a document: 304 if the ETag matches; compressed if the client accepts it. */
export async function sendJson(
  context: Context,
  document: Json,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const { bytes, tag, type } = document
  const etag = `W/"${tag}"`
  if (isKnown(context.req.header('if-none-match'), tag))
    return new Response(null, { status: 304, headers: { ...more, etag } })
  const encoding =
    bytes.length < COMPRESS_FROM_BYTES
      ? 'identity'
      : accepts(context, { header: 'Accept-Encoding', supports: ['gzip', 'br'], default: 'identity' })
  const body = encoding === 'identity' ? bytes : await compressed(document, encoding)
  const headers: Record<string, string> = {
    ...more,
    'content-type': type,
    etag,
    // Also sent for HEAD, without the body.
    'content-length': String(body.length),
  }
  if (encoding !== 'identity') headers['content-encoding'] = encoding
  // Not through the context: its `Headers` object takes as long as everything else in a small answer.
  return new Response(body as Uint8Array<ArrayBuffer>, { headers })
}

/** Compares tags weakly (RFC 9110), because the bytes may be compressed or not. @param tag without its quotes. */
export function isKnown(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map(one => one.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(`"${tag}"`)
}

const gzipped = promisify(gzip)
const brotlied = promisify(brotliCompress)
/** Larger than the default of 16 kB, because each chunk costs a turn of the event loop. */
const CHUNK_BYTES = 256 * 1024
/** For a document that is requested once, a higher quality costs more time than it saves. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }
const GZIP = { level: 4 }

/** Caches the compressed bytes of pages that are requested again. A document made for one answer is freed with it. */
const compressions = new WeakMap<Json, Map<string, Promise<Uint8Array>>>()

/** More threads than cores would take CPU from the event loop. */
const compressing = createTurns(availableParallelism() + 1)

async function compress(bytes: Uint8Array, encoding: string): Promise<Uint8Array> {
  const chunkSize = Math.min(CHUNK_BYTES, Math.max(1024, bytes.length))
  const compressed = await compressing(
    '',
    () => true,
    () =>
      encoding === 'br' ? brotlied(bytes, { ...BROTLI, chunkSize }) : gzipped(bytes, { ...GZIP, chunkSize }),
  )
  return compressed as Uint8Array
}

function compressed(document: Json, encoding: string): Promise<Uint8Array> {
  const known = compressions.get(document) ?? new Map<string, Promise<Uint8Array>>()
  compressions.set(document, known)
  const { bytes } = document
  const body = known.get(encoding) ?? compress(bytes, encoding)
  known.set(encoding, body)
  return body
}
