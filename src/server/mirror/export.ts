import { Readable } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'
import type { Context } from 'hono'
import { accepts } from 'hono/accepts'
import { z } from 'zod'
import { Places } from '#src/lib/concurrency.ts'
import type { HttpBindings, Outgoing } from '#src/lib/http/outgoing.ts'
import { isKnown } from '#src/server/contract/answers.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { download } from '#src/server/export/download.ts'
import { exportBytes, exportTag, WHAT, type What } from '#src/server/export/lines.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import { type MirrorSource, mirrorRoute } from './routes.ts'

/** The bytes from one number up to and without another. */
type ByteRange = { readonly from: number; readonly to: number }

const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/i

/**
 * Returns what a `Range` header asks for (RFC 9110).
 * @returns null for what a server may ignore: several ranges, other units, nonsense.
 */
function parseRange(header: string, size: number): ByteRange | 'unsatisfiable' | null {
  const parts = RANGE.exec(header.trim())
  if (!parts) return null
  const [, first, last, suffix] = parts
  if (suffix !== undefined)
    return Number(suffix) === 0 || size === 0
      ? 'unsatisfiable'
      : { from: Math.max(0, size - Number(suffix)), to: size }
  const from = Number(first)
  const to = last === '' ? size : Math.min(size, Number(last) + 1)
  if (last !== '' && Number(last) < from) return null
  return from >= size ? 'unsatisfiable' : { from, to }
}

const LINES = { 'application/x-ndjson': { schema: { type: 'string' } } }

export const EXPORT_ROUTE = mirrorRoute({
  method: 'GET',
  path: '/export.ndjson',
  name: 'export',
  scope: 'read',
  summary: 'Export all notices, analyses or both',
  description:
    'All documents of one snapshot, one a line, newest notice first. To resume a download, send `Range` with its `ETag` as `If-Range`: the rest comes from the same snapshot, also after newer ones were published, for ten minutes or longer. With `Accept-Encoding`, it is compressed and cannot be resumed.',
  query: z.object({
    what: z
      .enum(WHAT, `must be one of ${WHAT.join(', ')}`)
      .default('notices')
      .describe(
        '`notices` and `analyses` have a document of the contract in each line. `both` has `{"edital":…,"analysis":…}`; `analysis` is null if the current one is not there.',
      ),
  }),
  responses: {
    '200': { description: 'All lines.', content: LINES },
    '206': { description: 'The range of the lines that `Range` asks for.', content: LINES },
    '304': { description: 'The lines are those of `If-None-Match`.' },
    '416': { description: 'There are no such bytes; `Content-Range` has how many there are.' },
    '429': {
      description: 'The key sent too many requests, or has too many downloads under way; see `Retry-After`.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  },
  async answer({ context, source, query: { what } }) {
    // Range is defined for GET alone (RFC 9110, 14.2).
    const wantedRange = context.req.method === 'HEAD' ? undefined : context.req.header('range')
    const { snapshot, isContinued } = chooseSnapshot(context, source, {
      what,
      isRange: wantedRange !== undefined,
    })
    const size = exportBytes(snapshot.months, what)
    const tag = exportTag(snapshot.months, what)
    const range = isContinued ? parseRange(wantedRange ?? '', size) : null
    const encoding = range || size === 0 ? 'identity' : chooseEncoding(context)
    const version = encoding === 'identity' ? tag : `${tag}-${encoding}`
    const headers: Record<string, string> = {
      'content-type': 'application/x-ndjson',
      etag: `"${version}"`,
      // Ranges are of the uncompressed lines.
      ...(encoding === 'identity' ? { 'accept-ranges': 'bytes' } : {}),
    }
    if (isKnown(context.req.header('if-none-match'), version))
      return new Response(null, { status: 304, headers })
    if (range === 'unsatisfiable')
      return new Response(null, { status: 416, headers: { ...headers, 'content-range': `bytes */${size}` } })
    const { from, to } = range ?? { from: 0, to: size }
    if (encoding === 'identity') headers['content-length'] = String(to - from)
    else headers['content-encoding'] = encoding
    if (range) headers['content-range'] = `bytes ${from}-${to - 1}/${size}`
    const status = range ? 206 : 200
    if (context.req.method === 'HEAD' || from === to) return new Response(null, { status, headers })
    const { outgoing } = context.env as Partial<HttpBindings>
    if (!outgoing) throw new Error('exports need a connection')
    const { company, prefix: whose } = source
    const isStillValid = () => source.isStillValid()
    const body = beginExport({ company, snapshot, what, from, to, whose, encoding, outgoing, isStillValid })
    return new Response(body, { status, headers })
  },
})

/** Returns the snapshot to export, and whether `Range` may be heeded: not if what it continues is no longer there. */
function chooseSnapshot(
  context: Context,
  source: MirrorSource,
  { what, isRange }: { readonly what: What; readonly isRange: boolean },
): { readonly snapshot: ServedSnapshot; readonly isContinued: boolean } {
  const tag = context.req.header('if-range')
  if (tag === undefined || !isRange) return { snapshot: source.snapshot(), isContinued: true }
  const begun = source.findSnapshot(({ months }) => `"${exportTag(months, what)}"` === tag)
  return begun ? { snapshot: begun, isContinued: true } : { snapshot: source.snapshot(), isContinued: false }
}

const ENCODINGS = ['zstd', 'gzip', 'identity'] as const
type Encoding = (typeof ENCODINGS)[number]

function chooseEncoding(context: Context): Encoding {
  return accepts(context, {
    header: 'Accept-Encoding',
    supports: [...ENCODINGS],
    default: 'identity',
  }) as Encoding
}

/**
 * Downloads under way. Each holds a megabyte, or a few if there is room, and the months of its snapshot, as long as its
 * client takes.
 */
const places = new Places({ ofKey: 4, ofCompany: 12, inAll: 32 }, (taken, by) => {
  const whose = {
    ofKey: 'This key has',
    ofCompany: 'The keys of this company have',
    inAll: 'All clients have',
  }
  return new Refusal(429, `${whose[by]} ${taken} downloads under way. Begin another when one has ended.`, 10)
})
/** Levels at which compressing is not much slower than sending. */
const [ZSTD, GZIP] = [{ params: { [constants.ZSTD_c_compressionLevel]: 3 } }, { level: 4 }]

type ExportOrder = {
  readonly snapshot: ServedSnapshot
  readonly what: What
  /** The first byte, and the one after the last. */
  readonly from: number
  readonly to: number
  readonly company: string
  /** The key. */
  readonly whose: string
  readonly encoding: 'identity' | 'gzip' | 'zstd'
  readonly outgoing: Outgoing
  /** Whether the key may still read. */
  readonly isStillValid: () => boolean
}

/**
 * Begins an export, and returns the body of its answer. Its snapshot can be read to the end, even if it is replaced.
 * @throws Refusal (429) if too many downloads are under way.
 */
function beginExport(order: ExportOrder): ReadableStream {
  const { snapshot, company, whose, outgoing, encoding, isStillValid } = order
  const letGo = [places.take({ company, key: whose }), ...snapshot.months.map(month => month.hold())]
  outgoing.once('close', () => {
    for (const one of letGo) one()
  })
  snapshot.noteReader()
  const { months } = snapshot
  const isWanted = () => {
    // Half an answer must not look like a whole one.
    if (!outgoing.destroyed && !isStillValid()) outgoing.destroy()
    return !outgoing.destroyed
  }
  const onDamage: Parameters<typeof download>[0]['onDamage'] = month => snapshot.noteDamage(month)
  const isPlain = encoding === 'identity'
  const pieces = download({ ...order, months, isWanted, isPlain, onDamage })
  if (isPlain) return ReadableStream.from(pieces)
  const compressed = Readable.from(pieces, { objectMode: false, highWaterMark: 0 }).compose(
    encoding === 'gzip' ? createGzip(GZIP) : createZstdCompress(ZSTD),
  )
  return Readable.toWeb(compressed)
}
