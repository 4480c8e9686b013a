import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Context } from 'hono'
import { accepts } from 'hono/accepts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import type { Json } from './source.ts'

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
