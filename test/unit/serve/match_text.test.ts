import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fold } from '#schema/text_key.ts'
import { SEARCH_QUERY } from '#src/server/mirror/search.ts'
import { matchText, weighTerms } from '#src/server/search/match_text.ts'
import { findWordsFrom, indexTexts } from '#src/server/search/month_search.ts'
import { parseText, removeNumber, stemWord } from '#src/server/search/words.ts'

/** Words that repeat themselves and each other, and two forms of one. */
const WORD = fc.constantFrom('aa', 'bb', 'obra', 'obras')
const TEXT = fc.array(WORD, { maxLength: 40 })

async function placesWith(notices: readonly (readonly string[])[], phrase: readonly string[]) {
  const query = parseText(`"${phrase.join(' ')}"`)
  if ('problem' in query) throw new Error(query.problem)
  const index = indexTexts(
    notices.map(words => ({ own: [words.join(' '), 'Prefeitura'], parts: words.toReversed() })),
  )
  const matches = await matchText(index, query.terms, [1], async () => {})
  return notices
    .keys()
    .filter(place => matches?.found[place] === 1)
    .toArray()
}

function has(words: readonly string[], phrase: readonly string[]): boolean {
  return words.some((_, first) => phrase.every((word, number) => words[first + number] === word))
}

test('a phrase is found where its words follow one another, however often they repeat and long it is', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(TEXT, { minLength: 1, maxLength: 5 }),
      fc.array(WORD, { minLength: 2, maxLength: 32 }),
      fc.nat(),
      async (notices, words, from) => {
        // Half of them are in a notice.
        const own = notices[from % notices.length]?.slice(0, 32) ?? []
        const phrase = from % 2 === 0 && own.length > 1 ? own : words
        const stems = notices.map(text => text.map(stemWord))
        const expected = notices.keys().filter(place => has(stems[place] ?? [], phrase.map(stemWord)))
        expect(await placesWith(notices, phrase)).toEqual(expected.toArray())
      },
    ),
    { numRuns: 300 },
  ))

test('a phrase of 32 equal words in long texts takes no more than one pass over them', async () => {
  const long = Array.from({ length: 20_000 }, () => 'aa')
  const notices = Array.from({ length: 20 }, () => long)
  const before = process.memoryUsage().arrayBuffers
  expect(
    await placesWith(
      notices,
      Array.from({ length: 32 }, () => 'aa'),
    ),
  ).toHaveLength(20)
  // The index has 6 bytes for each of 400,000 words; a list of spots for each word of the phrase had 8 bytes for each of them.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20e6)
})

test('a prefix finds exactly the words that begin with it', () =>
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '9', 'ß', '𠀀'), minLength: 1 }), {
        minLength: 1,
      }),
      fc.string({ unit: fc.constantFrom('a', 'b', '9', '𠀀'), minLength: 1, maxLength: 3 }),
      (words, prefix) => {
        const index = indexTexts([{ own: [words.join(' ')], parts: [] }])
        const found = [...findWordsFrom(index, prefix)].map(number => index.words[number])
        expect(found).toEqual(index.words.filter(word => word.startsWith(prefix)))
      },
    ),
  ))

test('terms are weighed with pauses: each may be a prefix of every word', async () => {
  const query = parseText('aa* aaa* aaaa*')
  if ('problem' in query) throw new Error(query.problem)
  let pauses = 0
  const weights = await weighTerms(
    query.terms,
    [
      indexTexts([
        { own: ['aaaaa'], parts: [] },
        { own: ['b'], parts: [] },
      ]),
    ],
    async () => {
      pauses += 1
    },
  )
  expect([weights.length, pauses]).toEqual([3, 3])
})

const isTaken = (modalidade: string) => SEARCH_QUERY.safeParse({ modalidade }).success

test('each modality needs a word', () => {
  expect(
    ['pregao', 'Pregão - Eletrônico', '- leilão', 'pregao,dispensa', '8', 'Ørsted'].map(isTaken),
  ).toEqual(Array(6).fill(true))
  expect(['', ' ', ',', 'pregao,', ',pregao', 'pregao, ,leilao', '-'].map(isTaken)).toEqual(
    Array(7).fill(false),
  )
})

test('a list of modalities is checked in time that grows with its length alone', () => {
  // With an expression that matches each part in several ways, this takes seconds, and the longest list years.
  const started = performance.now()
  expect(isTaken('aaa,'.repeat(14))).toBe(false)
  expect(performance.now() - started).toBeLessThan(200)
  expect(isTaken('aaa,'.repeat(125))).toBe(false)
  expect(isTaken(`${'aaa,'.repeat(124)}aaaa`)).toBe(true)
})

/** Singular and plural, as tender notices have them. */
const PAIRS = `
  obra obras, rua ruas, via vias, ano anos, dia dias, ovo ovos, fio fios, osso ossos, ave aves, sala salas, peça peças,
  kit kits, notebook notebooks, tablet tablets, toner toners, container containers, scanner scanners, chip chips, led leds,
  software softwares, árvore árvores, hectare hectares, base bases, leite leites, lanche lanches, luz luzes, cruz cruzes,
  ambulância ambulâncias, emergência emergências, licença licenças, balança balanças, prótese próteses, gás gases, mês meses,
  aquisição aquisições, refeição refeições, pão pães, cidadão cidadãos, material materiais, hospital hospitais, imóvel imóveis,
  papel papéis, painel painéis, nível níveis, combustível combustíveis, descartável descartáveis, lençol lençóis, azul azuis,
  civil civis, infantil infantis, barril barris, perfil perfis, fuzil fuzis, bisturi bisturis, sal sais, gel géis,
  útil úteis, portátil portáteis, estéril estéreis, têxtil têxteis, fértil férteis, contábil contábeis, fóssil fósseis,
  item itens, homem homens, álbum álbuns, pneu pneus, computador computadores, colher colheres, escolar escolares,
  francês franceses, inglês ingleses, português portugueses, país países, motor motores, extintor extintores`

test('a word has the stem of its plural', () => {
  const pairs = PAIRS.split(',').map(pair => pair.trim().split(' ').map(fold) as [string, string])
  expect(pairs.filter(([one, many]) => stemWord(one) !== stemWord(many))).toEqual([])
  expect(pairs.filter(([one, many]) => removeNumber(one) !== removeNumber(many))).toEqual([])
})

test('words of another meaning have other stems, and words that only end like a plural are found', () => {
  for (const [one, other] of [
    ['mil', 'mel'],
    ['civil', 'cível'],
    ['anos', 'anis'],
    ['hotel', 'fotos'],
    ['mar', 'mesa'],
    ['obra', 'obreiro'],
  ] as const)
    expect(stemWord(fold(one)), one).not.toBe(stemWord(fold(other)))
  for (const word of ['onibus', 'lapis', 'virus', 'tenis', 'gratis', 'biceps', 'as', 's', 'es'])
    expect(stemWord(word), word).not.toBe('')
})
