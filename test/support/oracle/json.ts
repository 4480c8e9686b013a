export type Document = Record<string, unknown>

export function isObject(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Undefined if it is not JSON. */
export function parsed(sent: string): unknown {
  try {
    return JSON.parse(sent)
  } catch {
    return undefined
  }
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|true|false|null|[{}[\]:,]/g

/** Whether two valid JSON texts are equivalent, including duplicates, their order, and every digit. */
export function sameTokens(a: string, b: string): boolean {
  if (a === b) return true
  const [left, right] = [a.match(TOKEN) ?? [], b.match(TOKEN) ?? []]
  return (
    left.length === right.length &&
    left.every((token, i) => token === right[i] || meant(token) === meant(right[i] ?? ''))
  )
}

function meant(token: string): string {
  if (token.startsWith('"')) return JSON.stringify(JSON.parse(token))
  return /^[-\d]/.test(token) ? exact(token) : token
}

/** The sign, the digits without leading and trailing zeros, and the power of ten of the last digit. */
function exact(token: string): string {
  const [, sign, whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  const last = BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${last}`
}
