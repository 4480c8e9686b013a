import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Context } from 'hono'
import { accepts } from 'hono/accepts'
import type { Json } from './source.ts'
import { createTurns } from './turns.ts'

/** Smaller bodies fit into a packet as they are. */
const COMPRESS_FROM_BYTES = 1400

/** Sends a document: 304 if the ETag matches, compressed if the client accepts that. */
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
    // Said also to HEAD, whose body is left out.
    'content-length': String(body.length),
  }
  if (encoding !== 'identity') headers['content-encoding'] = encoding
  // Not by way of the context, which makes `Headers` of them: that takes as long as all else about a small answer.
  return new Response(body as Uint8Array<ArrayBuffer>, { headers })
}

/** The comparison is the weak one (RFC 9110): the bytes may be compressed or not. */
function isKnown(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map(one => one.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(`"${tag}"`)
}

const gzipped = promisify(gzip)
const brotlied = promisify(brotliCompress)
/** In larger pieces than the usual 16 kB, each of which costs a turn of the event loop. */
const CHUNK_BYTES = 256 * 1024
/** For a document that is asked for once, more would cost more time than it saves. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }
const GZIP = { level: 4 }

/** Of pages, which are asked for again; a document that is made for one answer is gone with it. */
const compressions = new WeakMap<Json, Map<string, Promise<Uint8Array>>>()

/** More threads than there are cores would take them from the event loop. */
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
