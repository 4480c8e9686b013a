import type { RemoteType } from '../columns.ts'
import type { Bound } from '../statistics.ts'

/** Characters of a text in a bound, as Iceberg's own writers keep them. */
const TEXT_CHARACTERS = 16
const LAST_CODE_POINT = 0x10ffff

/**
 * A bound in Iceberg's binary form ("Binary single-value serialization" of its specification); null if the text has
 * no upper bound of that length.
 */
export function boundBytes(bound: Bound, type: RemoteType, side: 'lower' | 'upper'): Buffer | null {
  switch (type) {
    case 'VARCHAR':
      return textBound(String(bound), side)
    case 'BOOLEAN':
      return Buffer.from([bound === true ? 1 : 0])
    case 'INTEGER':
    case 'DATE':
      return bytes(4, buffer => buffer.writeInt32LE(Number(bound)))
    case 'DOUBLE':
      return bytes(8, buffer => buffer.writeDoubleLE(Number(bound)))
    case 'BIGINT':
    case 'TIMESTAMP':
    case 'TIMESTAMPTZ':
      return bytes(8, buffer => buffer.writeBigInt64LE(BigInt(bound)))
  }
}

function bytes(length: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(length)
  write(buffer)
  return buffer
}

/** The beginning of a text; as an upper bound with its last character raised, so that it is above the text. */
function textBound(text: string, side: 'lower' | 'upper'): Buffer | null {
  const points = Array.from(text, character => character.codePointAt(0) as number)
  if (points.length <= TEXT_CHARACTERS) return Buffer.from(text)
  const kept = points.slice(0, TEXT_CHARACTERS)
  if (side === 'lower') return Buffer.from(String.fromCodePoint(...kept))
  while (kept.length > 0) {
    const last = raised(kept.pop() as number)
    if (last !== null) return Buffer.from(String.fromCodePoint(...kept, last))
  }
  return null
}

/** The next code point that UTF-8 can hold: surrogates are none. */
function raised(point: number): number | null {
  if (point === LAST_CODE_POINT) return null
  return point === 0xd7ff ? 0xe000 : point + 1
}
