/**
 * The position of a client in the raw log of a company: after the `n`th event of line `seq` of `segment`. Segment 0 is the
 * beginning of any log.
 */
export type Position = { readonly segment: number; readonly seq: number; readonly n: number }

/**
 * The log up to a segment, and what shows whether it is still the same. The segment is the last one of the snapshot from which
 * a client was answered, because it also reads documents from there: if that part of the log is lost, it must begin anew, even
 * though the events that it has are still there.
 */
export type LogUpTo = {
  readonly upTo: number
  /** Beginning of the SHA-256 of the log's first segment. */
  readonly log: Buffer
  /** Beginning of the hash of all segments up to that one. */
  readonly chain: Buffer
  /** When that snapshot was made, in ms since 1970. */
  readonly madeMs: number
}

export type Cursor = Position & LogUpTo

export const BEGINNING: Position = { segment: 0, seq: 0, n: 0 }

/** Increment this when positions get another meaning, or other bytes; earlier cursors are then gone. */
const VERSION = 2
const LOG_BYTES = 6
const CHAIN_BYTES = 7
const TIME_BYTES = 6
const BYTES = 1 + 4 + 4 + 1 + 4 + TIME_BYTES + LOG_BYTES + CHAIN_BYTES
const TEXT = /^[\w-]{44}$/
/** A cursor of version 1, which had no time. */
const EARLIER = /^AQ[\w-]{34}$/

/** Returns a text without meaning for clients: 44 characters that need no escape in a URL. */
export function writeFeedCursor(
  { segment, seq, n }: Position,
  { upTo, log, chain, madeMs }: LogUpTo,
): string {
  const bytes = Buffer.alloc(BYTES)
  bytes.writeUInt8(VERSION, 0)
  bytes.writeUInt32BE(segment, 1)
  bytes.writeUInt32BE(seq, 5)
  bytes.writeUInt8(n, 9)
  bytes.writeUInt32BE(upTo, 10)
  bytes.writeUIntBE(madeMs, 14, TIME_BYTES)
  log.copy(bytes, 20, 0, LOG_BYTES)
  chain.copy(bytes, 20 + LOG_BYTES, 0, CHAIN_BYTES)
  return bytes.toString('base64url')
}

/** Returns whether a text is a cursor of an earlier version. */
export function isEarlierCursor(text: string): boolean {
  return EARLIER.test(text)
}

/** Returns null for text that is no cursor of this version. */
export function readFeedCursor(text: string): Cursor | null {
  if (!TEXT.test(text)) return null
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.readUInt8(0) !== VERSION) return null
  return {
    segment: bytes.readUInt32BE(1),
    seq: bytes.readUInt32BE(5),
    n: bytes.readUInt8(9),
    upTo: bytes.readUInt32BE(10),
    madeMs: bytes.readUIntBE(14, TIME_BYTES),
    log: bytes.subarray(20, 20 + LOG_BYTES),
    chain: bytes.subarray(20 + LOG_BYTES),
  }
}

/** Returns whether the beginning of a hash, as a cursor has it, is that of this hash. */
export function beginsWith(hash: Uint8Array, beginning: Buffer): boolean {
  return beginning.equals(hash.subarray(0, beginning.length))
}
