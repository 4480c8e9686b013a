import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { createZstdDecompress } from 'node:zlib'
import { BOTH, type LineSpan, PIECE_BYTES, type What } from './lines.ts'

/**
 * Returns a line that is larger than a span, in pieces: it is never in memory as a whole, however slowly its client reads.
 * @throws Error if the file is damaged.
 */
export async function* largeLine({ month, from, skip }: LineSpan, what: What): AsyncGenerator<Uint8Array> {
  let toSkip = skip
  for await (const piece of partsOf(month, from, what)) {
    const skipped = Math.min(toSkip, piece.length)
    toSkip -= skipped
    if (skipped < piece.length) yield piece.subarray(skipped)
  }
}

async function* partsOf(month: LineSpan['month'], place: number, what: What): AsyncGenerator<Uint8Array> {
  if (what === 'both') yield Buffer.from(BOTH.before)
  if (what !== 'analyses') yield month.notices(place, place + 1)
  if (what === 'both') yield Buffer.from(BOTH.between)
  if (what !== 'notices') yield* analysis(month, place, what)
  yield Buffer.from(what === 'both' ? `${BOTH.after}\n` : '\n')
}

async function* analysis(month: LineSpan['month'], place: number, what: What): AsyncGenerator<Uint8Array> {
  const frame = month.index.analyses[place]
  if (!frame) {
    if (what === 'both') yield Buffer.from(BOTH.none)
    return
  }
  const { at, bytes, size } = frame
  const end = at + bytes - 1
  const packed = createReadStream('', { fd: month.analysesFile, autoClose: false, start: at, end })
  const unpacked = createZstdDecompress({ chunkSize: PIECE_BYTES })
  // Whoever iterates gets its error.
  pipeline(packed, unpacked, () => {})
  let read = 0
  for await (const piece of unpacked) {
    read += piece.length
    if (read > size) break
    yield piece
  }
  if (read !== size) throw new Error(`an analysis has ${read} bytes of JSON instead of ${size}`)
}
