import { Readable } from 'node:stream'
import { constants, createGzip, createZstdCompress } from 'node:zlib'
import type { Outgoing } from '#src/lib/http/outgoing.ts'
import { Places } from '#src/server/contract/places.ts'
import { Refusal } from '#src/server/contract/source.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import { download } from './download.ts'
import type { What } from './lines.ts'

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
export function beginExport(order: ExportOrder): ReadableStream {
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
