import { expect, test } from 'vitest'
import { SEARCH_QUERY } from '#src/server/mirror/search_query.ts'

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
