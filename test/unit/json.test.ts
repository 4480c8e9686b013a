import { describe, expect, it } from 'vitest'
import { haveSameMeaning, mayHoldLoneSurrogate, replaceLoneSurrogates, splitElements } from '#src/lib/json.ts'

/** Mulberry32: numbers in [0, 1), the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Random = () => number
const upTo = (random: Random, count: number) => Math.floor(random() * count)
const oneOf = <T>(random: Random, values: readonly T[]) => values[upTo(random, values.length)] as T

/** A value as JSON writes it: numbers as sign and digits times a power of ten, members in order. */
type Value =
  | { literal: 'true' | 'false' | 'null' }
  | { digits: bigint; exponent: number }
  | { string: string }
  | { elements: Value[] }
  | { members: [string, Value][] }

const PIECES = [
  'a',
  'Objeto ',
  '"',
  '\\',
  '/',
  '\n',
  '\t',
  '\u0000',
  'ç',
  '\u00a0',
  '\u2028',
  '😀',
  '\ud800',
  '\udc00',
  '[{',
  '}],:',
  '\ufeff',
]

function someString(random: Random): string {
  return Array.from({ length: upTo(random, 6) }, () => oneOf(random, PIECES)).join('')
}

function someValue(random: Random, depth: number): Value {
  const kind = upTo(random, depth > 0 ? 5 : 3)
  if (kind === 0) return { literal: oneOf(random, ['true', 'false', 'null'] as const) }
  if (kind === 1) {
    const digits = BigInt(
      oneOf(random, ['0', '1', '10', '45200', '12345678901234567890', '99999999999999900']),
    )
    return {
      digits: random() < 0.3 ? -digits : digits,
      exponent: oneOf(random, [0, 0, -2, -4, 3, 400, -400]),
    }
  }
  if (kind === 2) return { string: someString(random) }
  const length = upTo(random, 5)
  if (kind === 3) return { elements: Array.from({ length }, () => someValue(random, depth - 1)) }
  return { members: Array.from({ length }, () => [someString(random), someValue(random, depth - 1)]) }
}

function space(random: Random): string {
  return random() < 0.6 ? '' : oneOf(random, [' ', '\n  ', '\r\n', '\t', '    '])
}

const SHORT: Record<string, string> = { '\n': '\\n', '\t': '\\t', '"': '\\"', '\\': '\\\\', '/': '\\/' }

function written(random: Random, string: string): string {
  const units = Array.from({ length: string.length }, (_, i) => string.charAt(i))
  const escaped = units.map(unit => {
    const isForced = unit < ' ' || unit === '"' || unit === '\\'
    if (!isForced && random() < 0.7) return unit
    const hex = unit.charCodeAt(0).toString(16).padStart(4, '0')
    return SHORT[unit] && random() < 0.5 ? SHORT[unit] : `\\u${random() < 0.5 ? hex : hex.toUpperCase()}`
  })
  return `"${escaped.join('')}"`
}

/** One way to write digits times a power of ten: with zeros appended, a point anywhere, an exponent. */
function writtenNumber(random: Random, digits: bigint, exponent: number): string {
  const sign = digits < 0n ? '-' : ''
  const zeros = digits === 0n ? 0 : upTo(random, 3)
  const all = String(digits).replace('-', '') + '0'.repeat(zeros)
  const decimals = upTo(random, all.length + 3)
  const padded = all.padStart(decimals + 1, '0')
  const integer = padded.slice(0, padded.length - decimals)
  const power = exponent - zeros + decimals
  const fraction = decimals > 0 ? `.${padded.slice(padded.length - decimals)}` : ''
  const plus = power >= 0 && random() < 0.5 ? '+' : ''
  return `${sign}${integer}${fraction}${power === 0 && random() < 0.7 ? '' : `${oneOf(random, ['e', 'E'])}${plus}${power}`}`
}

/** The value as JSON text, with random white space, escapes and forms of numbers. */
function text(random: Random, value: Value): string {
  const around = (inner: string) => space(random) + inner + space(random)
  if ('literal' in value) return around(value.literal)
  if ('digits' in value) return around(writtenNumber(random, value.digits, value.exponent))
  if ('string' in value) return around(written(random, value.string))
  if ('elements' in value)
    return around(`[${value.elements.map(each => text(random, each)).join(',') || space(random)}]`)
  const members = value.members.map(([key, each]) => `${around(written(random, key))}:${text(random, each)}`)
  return around(`{${members.join(',') || space(random)}}`)
}

/** The simple way to the same answer: a list of normalised tokens, or null if JSON.parse refuses the text. */
function tokens(json: string): string[] | null {
  try {
    JSON.parse(json)
  } catch {
    return null
  }
  return (json.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[a-z]+|[{}[\],:]/gs) ?? []).map(token => {
    if (token.startsWith('"')) return `string ${JSON.stringify(JSON.parse(token))}`
    return /^[-\d]/.test(token) ? `number ${normalNumber(token)}` : token
  })
}

function normalNumber(token: string): string {
  const [, sign, integer = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.*))?$/.exec(token) ?? []
  const digits = (integer + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(power) - fraction.length + digits.length - significant.length}`
}

function expectedSame(a: string, b: string): boolean {
  const expected = tokens(a)
  return a === b || (expected !== null && JSON.stringify(expected) === JSON.stringify(tokens(b)))
}

/** The text with one character replaced, removed or added. */
function mutated(random: Random, json: string): string {
  const at = upTo(random, json.length + 1)
  const inserted =
    random() < 0.3 ? '' : oneOf(random, [...'"\\{}[],:0159.eE+- \n\u0001utnfa😀', '\\u0', ' ', '00'])
  return json.slice(0, at) + inserted + json.slice(at + upTo(random, 2))
}

describe('Two JSON texts have the same meaning', () => {
  it.each([
    ['white space outside strings differs', '{"a": [1,\r\n\t2 ] }', '{"a":[1,2]}'],
    ['only the escaping differs', '"\\u00e7\\/\\n\\ud83d\\ude00"', '"ç/\\u000a😀"'],
    ['a lone surrogate is escaped or not', '"\\ud800"', '"\ud800"'],
    ['one has a byte order mark', '\ufeff{"a":1}', '{"a":1}'],
    ['numbers are written 1, 1.0, 1e0, 1.00', '[1,1.0,1e0,1.00,10e-1]', '[1.00,1E+0,1.0,1,0.1e1]'],
    [
      'an exponent is too large to compare but written alike',
      '[1e99999999999999999999 ]',
      '[1e99999999999999999999]',
    ],
    ['zero has a sign, decimals or an exponent', '[0,-0,0.00]', '[0e99999999999999999999,0,-0.0]'],
    [
      'numbers beyond the precision of a double agree in every digit',
      '[12345678901234567890.50,1e400]',
      '[12345678901234567890.5,10e399]',
    ],
    [
      'nesting is deeper than any stack',
      `${'['.repeat(200_000)}${']'.repeat(200_000)}`,
      `${'[ '.repeat(200_000)}${']'.repeat(200_000)}`,
    ],
  ])('if %s', (_, a, b) => {
    expect(haveSameMeaning(a, b)).toBe(true)
    expect(haveSameMeaning(b, a)).toBe(true)
  })

  it('if they are megabytes long', () => {
    const long = 'ç '.repeat(1_000_000)
    expect(haveSameMeaning(`["${long}", 1]`, `["${long}",1.0]`)).toBe(true)
    expect(haveSameMeaning(`["${long}", 1]`, `["${long}",1.1]`)).toBe(false)
  })
})

describe('Two JSON texts differ in meaning', () => {
  it.each([
    ['a digit is lost in a double', '12345678901234567890', '12345678901234567000'],
    ['a number overflows', '[1e400]', '[null]'],
    ['only the magnitudes differ', '[1e400]', '[1e401]'],
    ['signs differ', '-1', '1'],
    ['a fraction is different', '1.05', '1.005'],
    ['the power of ten cannot be compared exactly', '1e99999999999999999999', '10e99999999999999999998'],
    ['duplicate keys were merged', '{"a":1,"a":2}', '{"a":2}'],
    ['members are in another order', '{"a":1,"b":2}', '{"b":2,"a":1}'],
    ['white space inside a string differs', '"a b"', '"a  b"'],
    ['a lone surrogate was replaced', '"\\ud800"', '"\ufffd"'],
    ['a string looks like a number', '"1"', '1'],
    ['a literal differs', '[true]', '[false]'],
    ['one is longer', '[1]', '[1,2]'],
    ['a quote ends one string and is escaped in the other', '"a"', '"a\\""'],
  ])('if %s', (_, a, b) => {
    expect(haveSameMeaning(a, b)).toBe(false)
    expect(haveSameMeaning(b, a)).toBe(false)
  })

  it.each([
    '',
    '[',
    '[1,]',
    '[1 2]',
    '{"a"}',
    '{a:1}',
    '{"a":1,}',
    '{"a",1}',
    '{1:2}',
    '[1:2]',
    '1,2',
    '01',
    '1.',
    '.5',
    '+1',
    '1e',
    '-',
    '[1]]',
    'tru',
    'nul',
    'truer',
    '"\\x"',
    '"\\u12g4"',
    '"\\u12',
    '"a',
    '"a\nb"',
    '"\u0000"',
    ',',
    '[,]',
    ']',
    'NaN',
    '1 1',
  ])('if both are malformed in the same way: %j', malformed => {
    expect(haveSameMeaning(malformed, ` ${malformed}`)).toBe(false)
  })

  it('or are malformed, unless they are identical: identical texts are not parsed', () => {
    expect(haveSameMeaning('[1,', '[1,')).toBe(true)
  })
})

describe('The comparison of meaning agrees with a simple one', () => {
  it('on random documents written in two random ways', () => {
    for (let seed = 1; seed <= 1500; seed++) {
      const random = seeded(seed)
      const value = someValue(random, 4)
      const [a, b] = [text(random, value), text(random, value)]
      expect(haveSameMeaning(a, b), `seed ${seed}: ${a} against ${b}`).toBe(true)
      expect(expectedSame(a, b), `seed ${seed}: the plain comparison of ${a} and ${b}`).toBe(true)
    }
  })

  it('on random documents, one of them with a random mutation', () => {
    const answers = { same: 0, different: 0, malformed: 0 }
    for (let seed = 1; seed <= 4000; seed++) {
      const random = seeded(seed)
      const value = someValue(random, 3)
      const [a, b] = [text(random, value), mutated(random, text(random, value))]
      const expected = expectedSame(a, b)
      expect(haveSameMeaning(a, b), `seed ${seed}: ${a} against ${b}`).toBe(expected)
      expect(haveSameMeaning(b, a), `seed ${seed}: ${b} against ${a}`).toBe(expected)
      answers[expected ? 'same' : tokens(b) ? 'different' : 'malformed']++
    }
    expect(Math.min(answers.same, answers.different, answers.malformed)).toBeGreaterThan(300)
  })
})

describe('The texts of the elements of a property', () => {
  it('are returned as written, character by character', () => {
    const page =
      '\ufeff { "total" : 3, "editais" : [ {"a": "\\"]},["} ,\n1.0 , [ [], {} ], "x" ] , "limit": [5] }'
    expect(splitElements(page, 'editais')).toEqual(['{"a": "\\"]},["}', '1.0', '[ [], {} ]', '"x"'])
  })

  it('are empty for an empty array, and come from the last property of that name', () => {
    expect(splitElements('{"editais":[ ]}', 'editais')).toEqual([])
    expect(splitElements('{"editais":[1,2],"edit\\u0061is":[3]}', 'editais')).toEqual(['3'])
    expect(splitElements('{"editais":[1,2],"editais":null}', 'editais')).toBeNull()
  })

  it('come only from the top level', () => {
    expect(
      splitElements('{"page":{"editais":[1]},"editais":[[{"editais":[2]}]],"b":[3]}', 'editais'),
    ).toEqual(['[{"editais":[2]}]'])
    expect(splitElements('{"editais":{"editais":[1]}}', 'editais')).toBeNull()
    expect(splitElements('[{"editais":[1]}]', 'editais')).toBeNull()
  })

  it.each([
    '',
    '[]',
    'null',
    '{"editais":{}}',
    '{"editais":[1]',
    '{"editais":[1,]}',
    '{"editais":[1]}x',
    '{"editais":["\\q"]}',
    '{"editais":[01]}',
    '{"editais":["a',
    '{"editais":["\u0001"]}',
    '{"other":[1]}',
  ])('are null for %j', json => {
    expect(splitElements(json, 'editais')).toBeNull()
  })

  it('parse to the elements that JSON.parse finds, in random documents', () => {
    for (let seed = 1; seed <= 800; seed++) {
      const random = seeded(seed)
      const elements = Array.from({ length: upTo(random, 5) }, () => someValue(random, 3))
      const decoys = Array.from(
        { length: upTo(random, 3) },
        () => [someString(random), someValue(random, 2)] as [string, Value],
      )
      const page = text(random, { members: [...decoys, ['editais', { elements }], ...decoys] })
      const found = splitElements(page, 'editais')?.map(each => JSON.parse(each))
      expect(found, `seed ${seed}: ${page}`).toEqual(JSON.parse(page).editais)
    }
  })
})

describe('Lone surrogates', () => {
  it('are replaced in strings and keys at any depth, and nothing else is', () => {
    const given = JSON.parse('{"a\\ud800":["x\\udfffy",{"b":"\\ud83d\\ude00 ç"},1.5,null,true]}')
    expect(replaceLoneSurrogates(given)).toEqual({ 'a\ufffd': ['x\ufffdy', { b: '😀 ç' }, 1.5, null, true] })
    expect(replaceLoneSurrogates({ 'a\ud800': 1 })).toEqual({ 'a\ufffd': 1 })
    expect(replaceLoneSurrogates(['\ud800', 1])).toEqual(['\ufffd', 1])
    expect(replaceLoneSurrogates({ a: '\ud800', b: 1 })).toEqual({ a: '\ufffd', b: 1 })
    expect(replaceLoneSurrogates('\ud800')).toBe('\ufffd')
  })

  it('leave a clean value as the same object, and never change the given value', () => {
    const clean = JSON.parse('{"a":[{"b":"😀"}],"c":null}')
    expect(replaceLoneSurrogates(clean)).toBe(clean)
    const given = { a: '\ud800' }
    replaceLoneSurrogates(given)
    expect(given).toEqual({ a: '\ud800' })
  })

  it('are replaced beside a member named __proto__, which stays a member', () => {
    const copy = replaceLoneSurrogates(JSON.parse('{"__proto__":{"a":"\\ud800"}}'))
    expect(JSON.stringify(copy)).toBe('{"__proto__":{"a":"\ufffd"}}')
  })

  it('are searched a thousand levels deep, and no deeper', () => {
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}"\\ud800"${']'.repeat(levels)}`)
    expect(JSON.stringify(replaceLoneSurrogates(nested(1000)))).toContain('"\ufffd"')
    expect(() => replaceLoneSurrogates(nested(1001))).toThrow(
      new RangeError('JSON nested deeper than 1000 levels'),
    )
    expect(() =>
      replaceLoneSurrogates(JSON.parse(`["\\ud800",${'['.repeat(2000)}${']'.repeat(2000)}]`)),
    ).toThrow(RangeError)
  })

  it('are announced by an escape in the text, and never occur without one', () => {
    expect(['"\\ud800"', '"\\uDFFF"', '"\\uD83D\\uDE00"'].map(mayHoldLoneSurrogate)).toEqual([
      true,
      true,
      true,
    ])
    expect(['"\\u00e7 \\n 😀"', '{}', '"ud800"'].map(mayHoldLoneSurrogate)).toEqual([false, false, false])
    let lone = 0
    for (let seed = 1; seed <= 1000; seed++) {
      const random = seeded(seed)
      const json = Buffer.from(text(random, someValue(random, 4))).toString()
      const parsed = JSON.parse(json)
      if (replaceLoneSurrogates(parsed) === parsed) continue
      lone++
      expect(mayHoldLoneSurrogate(json), `seed ${seed}: ${json}`).toBe(true)
    }
    expect(lone).toBeGreaterThan(50)
  })
})
