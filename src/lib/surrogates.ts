/** Maximum nesting, so that recursion cannot overflow the stack. */
const MAX_DEPTH = 1000

/**
 * Returns false if JSON.parse of this text cannot yield a lone surrogate. Bytes decoded as UTF-8 hold none, so one
 * can only come from an escape. True means only that there is such an escape; every escaped pair has one too.
 * Texts that were not decoded from bytes are out of scope.
 */
export function mayHoldLoneSurrogate(text: string): boolean {
  return text.includes('\\ud') || text.includes('\\uD')
}

/**
 * Returns the same reference if every string and key in it is well formed. Otherwise returns a copy with each
 * lone surrogate replaced by U+FFFD; if keys become equal, the last one is kept. Expects what JSON.parse
 * returns. Throws a RangeError for a value nested deeper than 1,000.
 */
export function replaceLoneSurrogates(value: unknown): unknown {
  return isWellFormed(value, 0) ? value : wellFormed(value)
}

function isWellFormed(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null) return true
  if (depth === MAX_DEPTH) throw new RangeError(`JSON nested deeper than ${MAX_DEPTH} levels`)
  let sound = true
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) sound = isWellFormed(value[i], depth + 1) && sound
  } else {
    const members = value as Record<string, unknown>
    for (const key in members) sound = isWellFormed(members[key], depth + 1) && key.isWellFormed() && sound
  }
  return sound
}

/** Needs no bound of its own: `isWellFormed` has already walked the whole value. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  // `fromEntries` defines `__proto__` as an ordinary member, as in JSON; assignment would set the prototype.
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key.toWellFormed(), wellFormed(each)]),
  )
}
