import { describe, expect, it, test } from 'vitest'
import { pluralize } from '#src/lib/count.ts'
import { fitInLine, formatPercent, formatWritten, withEqualDecimals } from '#src/present/text/format.ts'

describe('line', () => {
  it('is one line, without what is invisible', () => {
    expect(fitInLine(' Aquisição\n\tde  merenda\u200b ', 40)).toBe('Aquisição de merenda')
    expect(fitInLine(' a\u00a0\u200bb ', 3)).toBe('a b')
    expect(fitInLine('\u200b \n', 40)).toBeNull()
    expect(fitInLine(null, 40)).toBeNull()
  })

  it('ends with a whole word, without its punctuation', () => {
    expect(fitInLine('Aquisição de gêneros, para a merenda', 25)).toBe('Aquisição de gêneros…')
    expect(fitInLine('Aquisição de material, de limpeza; e outros', 30)).toBe('Aquisição de material, de…')
    expect(fitInLine('um dois. - três quatro', 12)).toBe('um dois…')
    expect(fitInLine('a'.repeat(50), 10)).toBe(`${'a'.repeat(9)}…`)
    expect(fitInLine(`${'-'.repeat(19_985)}${'z'.repeat(300)}`, 20_000)).toHaveLength(20_000)
    expect(fitInLine(`a${' -'.repeat(50_000)}`, 20_000)).toBe('a…')
  })

  it('reads only the beginning of a long text', () => {
    expect(fitInLine(`a${'\u200b'.repeat(1_000_000)}b`, 40)).toBe('a…')
    expect(fitInLine(`${' '.repeat(1_000_000)}b`, 40)).toBeNull()
    expect(fitInLine(`aaaa${' '.repeat(100)}b`, 40)).toBe('aaaa b')
  })
})

test.each([
  [0, '0 notices'],
  [1, '1 notice'],
  [2, '2 notices'],
  [1234, '1,234 notices'],
])('%i has the right number and grouping', (count, text) => {
  expect(pluralize(count, 'notice')).toBe(text)
})

test('an irregular plural is given', () => {
  expect([pluralize(1, 'analysis', 'analyses'), pluralize(3, 'analysis', 'analyses')]).toEqual([
    '1 analysis',
    '3 analyses',
  ])
})

test.each([
  ['8595457.42', 'number', '8.595.457,42'],
  ['12345678901234567890123', 'number', '12.345.678.901.234.567.890.123'],
  ['-1e+20', 'number', '-100.000.000.000.000.000.000'],
  ['nan', 'number', 'nan'],
  ['2026-11-23', 'day', '23/11/2026'],
  ['0033-01-01 (BC)', 'day', '0033-01-01 (BC)'],
  ['2026-11-23 09:00:00', 'time', '23/11/2026 às 09:00'],
  ['2026-11-23 00:00:00', 'time', '23/11/2026'],
  ['infinity', 'time', 'infinity'],
  ['true', 'boolean', 'sim'],
  ['false', 'boolean', 'não'],
  ['2026-11-23', 'other', '2026-11-23'],
  [null, 'number', '–'],
] as const)('%s (%s) is shown as %s', (text, kind, shown) => {
  expect(formatWritten(text, kind)).toBe(shown)
})

test('the numbers of a column have equal decimals; what is no number stays as it is', () => {
  expect(withEqualDecimals(['1.211.482,6', '522.000', '-3,91', '–', 'nan'])).toEqual([
    ...['1.211.482,60', '522.000,00', '-3,91', '–', 'nan'],
  ])
  expect(withEqualDecimals(['15,5', '13'])).toEqual(['15,5', '13,0'])
  expect(withEqualDecimals(['1.710', '0'])).toEqual(['1.710', '0'])
})

test('only what is all is 100%', () => {
  expect([formatPercent(0.997), formatPercent(1), formatPercent(0.994), formatPercent(null)]).toEqual([
    '99%',
    '100%',
    '99%',
    '–',
  ])
})
