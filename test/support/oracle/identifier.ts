/** The parts of an identifier at the national portal, as a reader of the texts finds them; shares nothing with `schema/`. */
export type Identifier = {
  readonly cnpj: string | null
  readonly year: number | null
  readonly sequence: bigint | null
}

export function identifierOf(value: unknown): Identifier {
  const text = String(value)
  const plain = [...text].length > 200 ? '' : text.replace(/[\p{Z}\p{C}]/gu, '').replace(/\p{Pd}/gu, '-')
  const [first = '', ...rest] = plain.split('-')
  // The hyphen of a CNPJ with punctuation is none between the parts.
  if (first.includes('/') && /^\d\d$/.test(rest[0] ?? '')) rest.shift()
  const head = plain.slice(0, plain.length - rest.map(part => part.length + 1).reduce((a, b) => a + b, 0))
  if (head.split('/').length > 2) return { cnpj: null, year: null, sequence: null }
  const bare = head.replace(/[./-]/g, '')
  const cnpj = /^[0-9A-Z]{12}\d\d$/i.test(bare) && /^[\x20-\x7e]*$/.test(bare) ? bare.toUpperCase() : null
  const [year, sequence] = yearAndSequence(rest)
  const known = { cnpj, year: /^\d{4}$/.test(year) ? Number(year) : null }
  const number = /^\d+$/.test(sequence) ? BigInt(sequence) : null
  const isKnown = (known.cnpj ?? known.year) !== null && number !== null && number < 2n ** 63n
  return { ...known, sequence: isKnown ? number : null }
}

function yearAndSequence(rest: readonly string[]): readonly [year: string, sequence: string] {
  const [one = '', two = ''] = rest
  if (rest.length !== 2 || one.includes('/')) return ['', '']
  const [sequence = '', year, ...more] = two.split('/')
  if (year === undefined) return [one, two]
  return /^\d$/.test(one) && more.length === 0 ? [year, sequence] : ['', '']
}

/** Whether a part cannot be read. */
export function isUnread(identifier: Identifier): boolean {
  return Object.values(identifier).some(part => part === null)
}
