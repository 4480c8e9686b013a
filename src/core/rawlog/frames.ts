import { promisify } from 'node:util'
import zlib from 'node:zlib'

const decompress = promisify(zlib.zstdDecompress)

const MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
const CHECKSUM_BYTES = 4
/** The most that a block of a frame can hold (RFC 8878, 3.1.1.2.4). */
const MAX_BLOCK_BYTES = 128 * 1024
/** A frame is a block of lines (`writer.ts`); its last line may have the maximum length. */
const MAX_FRAME_BYTES = 192 * 1024 * 1024

/**
 * Returns the readable parts of a segment: frames with a correct checksum, decompressed, and what is wrong with the bytes
 * between them. The writer starts each frame with a new line.
 */
export async function* readFrames(bytes: Buffer): AsyncGenerator<{ text: Buffer } | { damage: string }> {
  if (bytes.length === 0) yield { damage: 'it is empty' }
  for (let start = 0; start < bytes.length; ) {
    const end = frameAt(bytes, start)?.end ?? null
    const text = end === null ? null : await decompressed(bytes.subarray(start, end))
    if (end !== null && text !== null) {
      yield { text }
      start = end
      continue
    }
    yield { damage: damageAt(bytes, start, end) }
    const next = bytes.indexOf(MAGIC, start + 1)
    start = next === -1 ? bytes.length : next
  }
}

/**
 * Checks that the bytes are whole frames from first to last, without decompressing them. DuckDB does not notice a
 * truncated file.
 * @returns what is wrong, or the most bytes that they hold.
 */
export function measureFrames(bytes: Buffer): { readonly damage: string } | { readonly mostBytes: number } {
  if (bytes.length === 0) return { damage: 'it is empty' }
  let mostBytes = 0
  for (let start = 0; start < bytes.length; ) {
    const frame = frameAt(bytes, start)
    if (frame === null) return { damage: damageAt(bytes, start, null) }
    start = frame.end
    mostBytes += frame.blocks * MAX_BLOCK_BYTES
  }
  return { mostBytes }
}

function damageAt(bytes: Buffer, start: number, end: number | null): string {
  if (end !== null) return `bytes ${start} to ${end} are corrupted`
  return bytes.subarray(start, start + MAGIC.length).equals(MAGIC)
    ? `it is truncated: the frame at byte ${start} has no end`
    : `bytes from ${start} on are corrupted`
}

async function decompressed(frame: Buffer): Promise<Buffer | null> {
  return await decompress(frame, { maxOutputLength: MAX_FRAME_BYTES }).catch(() => null)
}

/** Returns the frame at `start` (RFC 8878, 3.1.1); null if there is none or it is incomplete. */
function frameAt(bytes: Buffer, start: number): { readonly end: number; readonly blocks: number } | null {
  if (!bytes.subarray(start, start + MAGIC.length).equals(MAGIC)) return null
  const descriptor = bytes[start + MAGIC.length]
  if (descriptor === undefined) return null
  const single = (descriptor >> 5) & 1
  const sizeBytes = [single, 2, 4, 8][descriptor >> 6] as number
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] as number
  let at = start + MAGIC.length + 1 + (1 - single) + dictionaryBytes + sizeBytes
  let blocks = 0
  for (let last = 0; last === 0; ) {
    blocks += 1
    if (at + 3 > bytes.length) return null
    const header = bytes.readUIntLE(at, 3)
    last = header & 1
    const kind = (header >> 1) & 3
    if (kind === 3) return null
    // An RLE block stores a single byte; the header has its repeat count.
    at += 3 + (kind === 1 ? 1 : header >> 3)
  }
  if ((descriptor >> 2) & 1) at += CHECKSUM_BYTES
  return at <= bytes.length ? { end: at, blocks } : null
}
