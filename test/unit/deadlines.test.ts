import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Deadlines, readDeadlinesAsJson } from '#src/deadlines/reading.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { IS_NIGHT } from '#test/support/night.ts'
import { readWordings } from '#test/support/wordings.ts'

/** More runs at night. */
const [SEED, RUNS] = [20261209, IS_NIGHT ? 300 : 60]

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

describe('a clause about contesting', () => {
  const TERMS = [
    ...[
      '5 dias úteis antes da sessão',
      '5 (cinco) dias úteis antes da data de abertura',
      '02/12/2026 às 18h',
    ],
    ...['o 5º dia útil anterior à sessão', '02 de dezembro de 2026'],
    'cinco dias úteis anteriores à data fixada para abertura da sessão pública',
  ]
  const CLAUSES = [
    ...['Impugnações: até {}', 'Prazo para impugnação: até {}', 'O edital poderá ser impugnado até {}'],
    ...[
      'Até {}, qualquer pessoa poderá impugnar o edital',
      'Data limite para impugnação: {}',
      'impugnação ({})',
    ],
    'Qualquer pessoa é parte legítima para impugnar este edital, devendo protocolar o pedido até {}',
    'Decairá do direito de impugnar quem não o fizer até {}',
  ]
  const OTHERS = [
    ...[
      'Esclarecimentos até 07/12/2026',
      'Resposta às impugnações até 04/12/2026',
      'Contrarrazões: 3 dias úteis',
    ],
    ...['Publicado em 24/11/2026', 'Sessão pública: 09/12/2026 às 09:00', 'Validade da proposta: 60 dias'],
    ...['Entrega em até 10 dias úteis após a assinatura', 'Vistoria até 04/12/2026', 'Garantia de 12 meses'],
    ...['Lei nº 14.133, de 1º de abril de 2021', 'Início do recebimento das propostas: 24/11/2026'],
    ...['Propostas até 09/12/2026 às 08:59', 'Intenção de recurso: 10 minutos', 'Homologação: 18/12/2026'],
    ...['As impugnações não suspendem os prazos', 'Multa de 10% após 5 dias de atraso'],
    'Caberá ao pregoeiro decidir sobre a impugnação no prazo de até 24 (vinte e quatro) horas',
    'A resposta será divulgada em até 3 dias úteis, limitada ao último dia útil anterior à data da abertura',
    'Recursos em até 3 dias úteis após a declaração do vencedor',
  ]

  it('means the same beside clauses about other things', () => {
    fc.assert(
      fc.property(fc.nat(), seed => {
        const random = createRandom(seed)
        const clause = random.pick(CLAUSES).replace('{}', random.pick(TERMS))
        const [before, after] = [
          random.sample(OTHERS, random.int(0, 3)),
          random.sample(OTHERS, random.int(0, 3)),
        ]
        expect((readingOf(clause) as Deadlines).impugnacao, clause).toHaveLength(1)
        const text = [...before, clause, ...after].join(random.pick(['. ', '; ', '\n', ' | ']))
        expect(readingOf(text), text).toMatchObject({
          impugnacao: (readingOf(clause) as Deadlines).impugnacao,
        })
      }),
      { numRuns: 3 * RUNS, seed: SEED },
    )
  })
})

describe('a timetable', () => {
  const EVENTS: readonly (readonly [day: string, names: readonly string[]])[] = [
    ['20/11/2026', ['Publicação', 'Divulgação no PNCP', 'Início do acolhimento de propostas']],
    ['27/11/2026', ['Visita técnica', 'Vistoria']],
    ['03/12/2026', ['Impugnação ao edital', 'Prazo final para impugnações', 'Pedido de impugnação']],
    ['04/12/2026', ['Esclarecimentos', 'Limite para esclarecimentos', 'Prazo para questionamentos']],
    ['07/12/2026', ['Resposta às impugnações', 'Julgamento das impugnações', 'Respostas']],
    ['09/12/2026', ['Sessão', 'Abertura das propostas', 'Data da sessão pública', 'Disputa']],
    ['18/12/2026', ['Homologação', 'Assinatura do contrato']],
  ]
  /** `E` and `D`: an event and its day. */
  const PAIRS = [
    'E: D',
    'E - D',
    'E D',
    'E em D',
    'E (D)',
    'E\nD',
    'E | D',
    'E\tD',
    'E ..... D',
    'E: D às 18h',
  ]
  const TURNED = ['D E', 'D - E', 'D: E', 'D (E)', 'D\nE', 'D | E', 'D\tE', 'D às 18h - E']
  const BETWEEN = ['; ', ', ', ' - ', ' – ', ' | ', '\n', ' / ', ' • ', '. ', '\t', ',\n', ' * ', ' e ']
  const HEADINGS = ['', 'Cronograma: ', 'DATAS\n']

  it('binds each day to its event, in either order and with any marks in between', () => {
    fc.assert(
      fc.property(fc.nat(), seed => {
        const random = createRandom(seed)
        const [pair, between] = [random.pick([...PAIRS, ...TURNED]), random.pick(BETWEEN)]
        const events = EVENTS.filter(([day]) => day === '03/12/2026' || random.chance(0.5))
        const text = `${random.pick(HEADINGS)}${events
          .map(([day, names]) => pair.replace(/[ED]/g, part => (part === 'D' ? day : random.pick(names))))
          .join(between)}`
        const days = (readingOf(text) as Deadlines).impugnacao.map(({ dia }) => dia)
        expect(days, text).toEqual(['2026-12-03'])
      }),
      { numRuns: 10 * RUNS, seed: SEED },
    )
  })
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
    ...['sessão 03/12/2026 ', '03/12/2026 | impugnação | '],
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
  /** The fastest of three takes a few milliseconds, also on a busy machine. What is not linear takes a second, or an hour. */
  const MAX_MILLISECONDS = 200

  it.each(UNITS)('%j', unit => {
    const text = unit.repeat(Math.ceil(100_000 / unit.length))
    const times = [1, 2, 3].map(() => {
      const started = performance.now()
      readDeadlinesAsJson(text, text)
      return performance.now() - started
    })
    expect(Math.min(...times)).toBeLessThan(MAX_MILLISECONDS)
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
  return JSON.parse(readDeadlinesAsJson(text, '') as string, (key, value) =>
    key === 'trecho' ? undefined : value,
  )
}

function each(text: string, change: (letter: string) => string): string {
  return Array.from(text, change).join('')
}
