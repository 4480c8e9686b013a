import fc from 'fast-check'
import { expect, test } from 'vitest'
import { matchText, weightsOf } from '#src/server/search/match_text.ts'
import { indexTexts, wordsFrom } from '#src/server/search/month_text.ts'
import { parseText } from '#src/server/search/text_query.ts'
import { stemOf } from '#src/server/search/words.ts'

/** Words that repeat themselves and each other, and two forms of one. */
const WORD = fc.constantFrom('aa', 'bb', 'obra', 'obras')
const TEXT = fc.array(WORD, { maxLength: 40 })

async function placesWith(notices: readonly (readonly string[])[], phrase: readonly string[]) {
  const query = parseText(`"${phrase.join(' ')}"`)
  if ('problem' in query) throw new Error(query.problem)
  const index = indexTexts(notices.map(words => [words.join(' '), 'Prefeitura']))
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
        const stems = notices.map(text => text.map(stemOf))
        const expected = notices.keys().filter(place => has(stems[place] ?? [], phrase.map(stemOf)))
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
        const index = indexTexts([[words.join(' ')]])
        const found = [...wordsFrom(index, prefix)].map(number => index.words[number])
        expect(found).toEqual(index.words.filter(word => word.startsWith(prefix)))
      },
    ),
  ))

test('terms are weighed with pauses: each may be a prefix of every word', async () => {
  const query = parseText('aa* aaa* aaaa*')
  if ('problem' in query) throw new Error(query.problem)
  let pauses = 0
  const weights = await weightsOf(query.terms, [indexTexts([['aaaaa'], ['b']])], async () => {
    pauses += 1
  })
  expect([weights.length, pauses]).toEqual([3, 3])
})
