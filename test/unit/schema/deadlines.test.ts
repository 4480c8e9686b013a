import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deadlineReading } from '#schema/deadlines/reading.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { readWordings } from '#test/support/wordings.ts'

const [SEED, RUNS] = [20261209, 300]

/** Without markup, which another spelling would break, and so short that no spelling reaches the length that is read. */
const texts = readWordings().flatMap(({ text }) =>
  text !== '' && text.length < 1_000 && !/[<&\u00c2\u00c3]/.test(text) ? [text] : [],
)

const INVISIBLE = [...'\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202a\u202c\u034f\ufe0f']
const SPACES = [...' \u00a0\u1680\u2002\u2007\u2009\u200a\u202f\u205f\u3000']

/** In an order in which each can follow those before it. */
const SPELLINGS: Readonly<Record<string, (text: string, random: Random) => string>> = {
  'digits of full width': text =>
    text.replace(/\d/g, digit => String.fromCharCode(digit.charCodeAt(0) + 0xfee0)),
  'upper and lower case': (text, random) =>
    each(text, letter => (random.chance(0.5) ? letter.toUpperCase() : letter.toLowerCase())),
  'composed letters': text => text.normalize('NFC'),
  'decomposed letters': text => text.normalize('NFD'),
  'Unicode spaces': (text, random) => text.replace(/ /g, () => random.pick(SPACES)),
  'invisible characters': (text, random) =>
    each(text, letter => (random.chance(0.2) ? letter + random.pick(INVISIBLE) : letter)),
  'entities of HTML': (text, random) =>
    each(text, letter => (random.chance(0.3) && letter !== '\n' ? `&#${letter.codePointAt(0)};` : letter)),
}

describe('the same deadlines are read', () => {
  it.each(Object.entries(SPELLINGS))('with %s', (_, spell) => checkSpelling(spell))

  it('with all of these at once', () =>
    checkSpelling((text, random) =>
      Object.values(SPELLINGS).reduce((spelled, spell) => spell(spelled, random), text),
    ))
})

describe('a hostile text of 100 kB is read in an instant', () => {
  const UNITS = [
    ...[
      '1',
      '12',
      '3 ',
      '3-',
      '3/',
      '3.',
      '1.1.',
      '03/12/2026',
      '03/12/2026 ',
      '3 ou 5 ',
      '18:00 ',
      '3 h ',
      'd-3 ',
    ],
    ...[
      '3 dias',
      '3 dias ',
      '3 dias úteis, ',
      'dias úteis: ',
      'dia ',
      'dias ',
      '(',
      '(3) ',
      '3 (três) ',
      'vinte e ',
    ],
    ...[
      ' ',
      '\n',
      '\t',
      '; ',
      '. ',
      '|',
      'a|1|\n',
      'a;b\n1;2\n',
      '<',
      '<p>',
      '<td>1</td>',
      '&',
      '&nbsp;',
      '&amp;',
    ],
    ...[
      'impugna',
      'impugna ',
      'impugna, resposta 3 dias ',
      '3 dias para impugnar ',
      'no mesmo prazo impugna ',
    ],
    ...['impugnação 3 dias esclarecimento 3 dias ', 'de ', 'até ', 'até a ', 'antes de ', 'de 03/12/2026 a '],
    ...[
      'publicado em ',
      'a contar da ',
      'prorrogado de ',
      'onde se lê ',
      'não a partir de ',
      'às 0h de ',
      'sessão ',
    ],
    ...[
      'lei ',
      'lei nº 1 ',
      'nº 1 de ',
      'aviso nº 1 (',
      'regulamento de ',
      '13.',
      'rua ',
      'antepenúltimo dia ',
    ],
    ...['\u200b', 'e\u0301', 'Ã', 'Ãº', '\ud800', '\u3000'],
  ]
  /** It takes a few milliseconds. What is not linear takes a second, or an hour. */
  const MAX_MILLISECONDS = 200

  it.each(UNITS)('%j', unit => {
    const text = unit.repeat(Math.ceil(100_000 / unit.length))
    const started = performance.now()
    deadlineReading(text, text)
    expect(performance.now() - started).toBeLessThan(MAX_MILLISECONDS)
  })
})

function checkSpelling(spell: (text: string, random: Random) => string): void {
  fc.assert(
    fc.property(fc.constantFrom(...texts), fc.nat(), (text, seed) => {
      expect(readingOf(spell(text, createRandom(seed)))).toEqual(readingOf(text))
    }),
    { numRuns: RUNS, seed: SEED },
  )
}

/** What is read but for the excerpts, which show a text as it is written. */
function readingOf(text: string): unknown {
  return JSON.parse(deadlineReading(text, '') as string, (key, value) =>
    key === 'trecho' ? undefined : value,
  )
}

function each(text: string, change: (letter: string) => string): string {
  return Array.from(text, change).join('')
}
