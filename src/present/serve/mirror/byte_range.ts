/** The bytes from one number up to and without another. */
type ByteRange = { readonly from: number; readonly to: number }

const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/i

/**
 * Returns what a `Range` header asks for (RFC 9110).
 * @returns null for what a server may ignore: several ranges, other units, nonsense.
 */
export function rangeOf(header: string, size: number): ByteRange | 'unsatisfiable' | null {
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
