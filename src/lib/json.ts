/*
 * JSON as text, for what JSON.parse loses: duplicate keys, digits beyond a double's precision, 1e400. The walks here
 * go token by token and build no value, so depth costs one small number per open bracket and no call stack. A byte
 * order mark before a text is ignored.
 */

const QUOTE = 0x22
const PLUS = 0x2b
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const BACKSLASH = 0x5c
const CLOSE_ARRAY = 0x5d
const LOWER_E = 0x65
const LOWER_U = 0x75
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const SPACE = 0x20
const BYTE_ORDER_MARK = 0xfeff

/**
 * The position of a walk over a text. The text is copied into UTF-16 units, which are three times as fast to
 * read as charCodeAt; the copy costs 2 µs for 40 kB. A NUL follows the last unit. No token may hold one, so
 * each token stops there without a length check.
 */
interface Place {
  readonly units: Uint16Array
  readonly length: number
  at: number
}

/**
 * Returns true if both JSON texts hold the same value, token by token. White space outside strings is ignored.
 * Strings compare after unescaping, numbers by their exact decimal value (0 equals -0), and members in
 * order, including duplicates. False if a text is malformed, unless both texts are identical: those are
 * not parsed. Never throws.
 *
 * Numbers with exponents of more than 14 digits are equal only if written alike.
 */
export function haveSameMeaning(original: string, reserialised: string): boolean {
  if (original === reserialised) return true
  const a = start(original, 0)
  const b = start(reserialised, 1)
  const grammar = newGrammar()
  for (;;) {
    skipSpace(a)
    skipSpace(b)
    const ended = a.at === a.length
    if (ended || b.at === b.length) return ended && b.at === b.length && isComplete(grammar)
    // One grammar serves both: until a token differs, both texts are at the same point in it.
    if (!accepts(grammar, unitAt(a)) || !sameToken(a, b)) return false
  }
}

/**
 * Returns the source text of each element of the array in the top-level object's `property`. If the property is
 * duplicated, the last one counts, as in JSON.parse. Null if the text is malformed or is not an object with
 * such an array.
 */
export function splitElements(text: string, property: string): string[] | null {
  const place = start(text, 0)
  const grammar = newGrammar()
  let inProperty = false
  let elements: string[] | null = null
  let elementFrom = 0
  for (;;) {
    skipSpace(place)
    if (place.at === place.length) return isComplete(grammar) ? elements : null
    const { at: from } = place
    const depth = grammar.open.length
    const first = unitAt(place)
    if (!accepts(grammar, first) || !passToken(place)) return null
    if (depth === 1 && grammar.expects === AFTER_KEY) {
      inProperty = JSON.parse(text.slice(from, place.at)) === property
      if (inProperty) elements = null
    } else if (depth === 1 && inProperty && first === OPEN_ARRAY) {
      elements = []
    } else if (inProperty && elements) {
      if (depth === 2) elementFrom = from
      const elementEnded = grammar.open.length === 2 && grammar.expects === AFTER_VALUE
      if (elementEnded) elements.push(text.slice(elementFrom, place.at))
    }
  }
}

/** Returns true if brackets in the JSON text nest deeper than the bound. Builds nothing, so any depth is safe. */
export function nestsDeeperThan(text: string, bound: number): boolean {
  // Each level takes two characters.
  if (text.length <= 2 * bound) return false
  const { units, length } = start(text, 0)
  let depth = 0
  let inString = false
  for (let at = 0; at < length; at++) {
    const unit = units[at] ?? 0
    if (inString && unit === BACKSLASH) at++
    else if (unit === QUOTE) inString = !inString
    else if (inString) continue
    else if (unit === OPEN_ARRAY || unit === OPEN_OBJECT) depth++
    else if (unit === CLOSE_ARRAY || unit === CLOSE_OBJECT) depth--
    if (depth > bound) return true
  }
  return false
}

/** The tokens that may follow the previous ones. */
interface Grammar {
  expects: number
  /** The closing bracket that each open one waits for. */
  readonly open: number[]
}

const VALUE = 0
const ELEMENT_OR_END = 1
const KEY_OR_END = 2
const KEY = 3
const AFTER_KEY = 4
const AFTER_VALUE = 5

function newGrammar(): Grammar {
  return { expects: VALUE, open: [] }
}

function isComplete(grammar: Grammar): boolean {
  return grammar.expects === AFTER_VALUE && grammar.open.length === 0
}

/** Accepts a token by its first character; false if no such token is allowed here. */
function accepts(grammar: Grammar, first: number): boolean {
  const { expects, open } = grammar
  if (expects === AFTER_KEY) {
    grammar.expects = VALUE
    return first === COLON
  }
  const close = open.length > 0 ? open[open.length - 1] : undefined
  if (first === close && (expects === AFTER_VALUE || expects === ELEMENT_OR_END || expects === KEY_OR_END)) {
    open.pop()
    grammar.expects = AFTER_VALUE
    return true
  }
  if (expects === AFTER_VALUE) {
    grammar.expects = close === CLOSE_OBJECT ? KEY : VALUE
    return first === COMMA && close !== undefined
  }
  if (expects === KEY || expects === KEY_OR_END) {
    grammar.expects = AFTER_KEY
    return first === QUOTE
  }
  return acceptsValue(grammar, first)
}

function acceptsValue(grammar: Grammar, first: number): boolean {
  if (first === OPEN_OBJECT) {
    grammar.open.push(CLOSE_OBJECT)
    grammar.expects = KEY_OR_END
    return true
  }
  if (first === OPEN_ARRAY) {
    grammar.open.push(CLOSE_ARRAY)
    grammar.expects = ELEMENT_OR_END
    return true
  }
  grammar.expects = AFTER_VALUE
  return first === QUOTE || first === MINUS || isDigit(first) || isLetter(first)
}

/** Skips one token of both texts; false if they differ or one is malformed. */
function sameToken(a: Place, b: Place): boolean {
  const first = unitAt(a)
  if (first === MINUS || isDigit(first)) return sameNumber(a, b)
  if (first !== unitAt(b)) return false
  // The first letter distinguishes the literals.
  return first === QUOTE ? sameString(a, b) : passToken(a) && passToken(b)
}

function sameString(a: Place, b: Place): boolean {
  const left = a.units
  const right = b.units
  let i = a.at + 1
  let j = b.at + 1
  for (;;) {
    let x = left[i] ?? 0
    // Most units are lower-case letters, which one comparison settles.
    while (x === right[j] && (x > BACKSLASH || (x >= SPACE && x !== QUOTE && x !== BACKSLASH))) {
      x = left[++i] ?? 0
      j++
    }
    const y = right[j] ?? 0
    if (x === QUOTE || y === QUOTE) {
      a.at = i + 1
      b.at = j + 1
      return x === y
    }
    const unit = x === BACKSLASH ? unescaped(left, i) : x
    const isSame = unit === (y === BACKSLASH ? unescaped(right, j) : y)
    if (!isSame || unit < 0 || x < SPACE || y < SPACE) return false
    i += x === BACKSLASH ? escapeLength(left, i) : 1
    j += y === BACKSLASH ? escapeLength(right, j) : 1
  }
}

function sameNumber(a: Place, b: Place): boolean {
  const from = a.at
  const fromB = b.at
  if (!passNumber(a) || !passNumber(b)) return false
  const length = a.at - from
  if (b.at - fromB !== length) return sameDecimal(a.units, from, a.at, b.units, fromB, b.at)
  let k = 0
  while (k < length && a.units[from + k] === b.units[fromB + k]) k++
  return k === length || sameDecimal(a.units, from, a.at, b.units, fromB, b.at)
}

/** Compares the sign, the power of ten of the first nonzero digit, and the digits from there. */
function sameDecimal(
  a: Uint16Array,
  from: number,
  to: number,
  b: Uint16Array,
  fromB: number,
  toB: number,
): boolean {
  const end = mantissaEnd(a, from, to)
  const endB = mantissaEnd(b, fromB, toB)
  let i = firstSignificant(a, from, end)
  let j = firstSignificant(b, fromB, endB)
  if (i === end || j === endB) return i === end && j === endB
  if ((a[from] === MINUS) !== (b[fromB] === MINUS)) return false
  if (power(a, from, to, end, i) !== power(b, fromB, toB, endB, j)) return false
  while (i < end || j < endB) {
    if (a[i] === POINT) i++
    if (b[j] === POINT) j++
    const digit = i < end ? a[i] : ZERO
    if (digit !== (j < endB ? b[j] : ZERO)) return false
    i++
    j++
  }
  return true
}

function mantissaEnd(units: Uint16Array, from: number, to: number): number {
  let at = from
  while (at < to && !isExponentLetter(units[at] ?? 0)) at++
  return at
}

/** Finds the index of the first digit that is not 0, or `end` if the number is zero. */
function firstSignificant(units: Uint16Array, from: number, end: number): number {
  let at = from
  while (at < end && (units[at] ?? 0) <= ZERO) at++
  return at
}

/** Returns the power of ten of the digit at `first`; NaN, which equals nothing, if a double could not hold it. */
function power(units: Uint16Array, from: number, to: number, end: number, first: number): number {
  let point = from
  while (point < end && units[point] !== POINT) point++
  const place = first < point ? point - first - 1 : point - first
  if (end === to) return place
  const sign = units[end + 1]
  const digits = sign === PLUS || sign === MINUS ? end + 2 : end + 1
  if (to - digits > 14) return Number.NaN
  let exponent = 0
  for (let at = digits; at < to; at++) exponent = exponent * 10 + (units[at] ?? 0) - ZERO
  return sign === MINUS ? place - exponent : place + exponent
}

/** Copies a text into scratch memory. A walk must end before the next one with the same `slot` begins. */
function start(text: string, slot: 0 | 1): Place {
  const bytes = scratch(slot, text.length)
  const units = new Uint16Array(bytes.buffer, bytes.byteOffset, text.length + 1)
  bytes.write(text, 'utf16le')
  units[text.length] = 0
  return { units, length: text.length, at: units[0] === BYTE_ORDER_MARK ? 1 : 0 }
}

const KEPT_SCRATCH_BYTES = 2 * 1024 * 1024
const kept = [Buffer.alloc(0), Buffer.alloc(0)]

/** Returns room for `length` units and the NUL. A text larger than the kept buffer gets a buffer of its own. */
function scratch(slot: 0 | 1, length: number): Buffer {
  const size = 2 * (length + 1)
  let bytes = kept[slot] ?? Buffer.alloc(0)
  if (bytes.length >= size) return bytes
  // Not from Buffer's pool, where the offset may be odd.
  bytes = Buffer.from(new ArrayBuffer(Math.max(size, Math.min(2 * bytes.length, KEPT_SCRATCH_BYTES))))
  if (bytes.length <= KEPT_SCRATCH_BYTES) kept[slot] = bytes
  return bytes
}

function unitAt(place: Place): number {
  return place.units[place.at] ?? 0
}

function skipSpace(place: Place): void {
  const { units } = place
  let { at } = place
  while (isSpace(units[at] ?? 0)) at++
  place.at = at
}

/** Skips one token whose first character the grammar accepted; false if it is malformed. */
function passToken(place: Place): boolean {
  const first = unitAt(place)
  if (first === QUOTE) return passString(place)
  if (first === MINUS || isDigit(first)) return passNumber(place)
  if (isLetter(first)) return passLiteral(place)
  place.at++
  return true
}

function passLiteral(place: Place): boolean {
  const first = unitAt(place)
  const literal = LITERALS.find(each => each.charCodeAt(0) === first) ?? ''
  for (let i = 0; i < literal.length; i++)
    if (place.units[place.at + i] !== literal.charCodeAt(i)) return false
  place.at += literal.length
  return literal !== ''
}

const LITERALS = ['null', 'true', 'false']

function passString(place: Place): boolean {
  const { units } = place
  let at = place.at + 1
  for (;;) {
    const unit = units[at] ?? 0
    if (unit === QUOTE) break
    if (unit < SPACE || (unit === BACKSLASH && unescaped(units, at) < 0)) return false
    at += unit === BACKSLASH ? escapeLength(units, at) : 1
  }
  place.at = at + 1
  return true
}

function passNumber(place: Place): boolean {
  const { units } = place
  let { at } = place
  if (units[at] === MINUS) at++
  const integerEnd = units[at] === ZERO ? at + 1 : digitsEnd(units, at)
  if (integerEnd === at) return false
  at = integerEnd
  if (units[at] === POINT) {
    const fractionEnd = digitsEnd(units, at + 1)
    if (fractionEnd === at + 1) return false
    at = fractionEnd
  }
  if (isExponentLetter(units[at] ?? 0)) {
    const sign = units[at + 1]
    const from = sign === PLUS || sign === MINUS ? at + 2 : at + 1
    at = digitsEnd(units, from)
    if (at === from) return false
  }
  place.at = at
  return true
}

function digitsEnd(units: Uint16Array, from: number): number {
  let at = from
  while (isDigit(units[at] ?? 0)) at++
  return at
}

/** Returns the UTF-16 unit that the escape at `at` encodes; negative if it is malformed. */
function unescaped(units: Uint16Array, at: number): number {
  const kind = units[at + 1] ?? 0
  if (kind !== LOWER_U) return SIMPLE_ESCAPES.get(kind) ?? -1
  let unit = 0
  for (let i = at + 2; i < at + 6; i++) {
    const digit = hexDigit(units[i] ?? 0)
    if (digit < 0) return -1
    unit = unit * 16 + digit
  }
  return unit
}

const SIMPLE_ESCAPES = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }).map(
    ([letter, meaning]) => [letter.charCodeAt(0), meaning.charCodeAt(0)],
  ),
)

function escapeLength(units: Uint16Array, at: number): number {
  return units[at + 1] === LOWER_U ? 6 : 2
}

function hexDigit(unit: number): number {
  if (isDigit(unit)) return unit - ZERO
  const lower = unit | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1
}

function isSpace(unit: number): boolean {
  return unit <= SPACE && (unit === SPACE || unit === 0x0a || unit === 0x0d || unit === 0x09)
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= 0x39
}

function isLetter(unit: number): boolean {
  return unit >= 0x61 && unit <= 0x7a
}

function isExponentLetter(unit: number): boolean {
  return (unit | 0x20) === LOWER_E
}

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
