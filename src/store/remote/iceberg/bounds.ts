import type { RemoteType } from '../columns.ts'
import { type Bound, textBound } from '../statistics.ts'

/** How many characters of a text a bound has, as with Iceberg's own writers. */
const TEXT_CHARACTERS = 16

/**
 * Returns a bound in Iceberg's binary form ("Binary single-value serialization" of its specification); null if the text has
 * no upper bound of that length.
 */
export function boundBytes(bound: Bound, type: RemoteType, side: 'lower' | 'upper'): Buffer | null {
  switch (type) {
    case 'VARCHAR':
      return textBytes(textBound(String(bound), side === 'lower' ? 'min' : 'max', TEXT_CHARACTERS))
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

function textBytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text)
}
