import { expect, test } from 'vitest'
import { line } from '#src/present/text/format.ts'

test.each([
  ['Aquisição de material, de limpeza; e outros', 30, 'Aquisição de material, de…'],
  ['um dois. - três quatro', 12, 'um dois…'],
  ['a'.repeat(50), 10, `${'a'.repeat(9)}…`],
  [' a\u00a0\u200bb ', 3, 'a b'],
  ['\u200b', 3, null],
])('%j of at most %i characters is %j', (text, maxCharacters, expected) => {
  expect(line(text, maxCharacters)).toBe(expected)
})

test('a long text is cut in time that grows with its length alone', () => {
  const started = performance.now()
  for (const part of ['.', ' .', '- ', ' a', 'a'])
    expect(line(`${part.repeat(90_000 / part.length)}${'x'.repeat(20_000)}`, 100_000)).toHaveLength(100_000)
  expect(performance.now() - started).toBeLessThan(1500)
})
