import { expect, test } from 'vitest'
import { counted } from '#src/lib/count.ts'

test.each([
  [0, '0 notices'],
  [1, '1 notice'],
  [2, '2 notices'],
  [1234, '1,234 notices'],
])('%i has the right number and grouping', (count, text) => {
  expect(counted(count, 'notice')).toBe(text)
})

test('an irregular plural is given', () => {
  expect([counted(1, 'analysis', 'analyses'), counted(3, 'analysis', 'analyses')]).toEqual([
    '1 analysis',
    '3 analyses',
  ])
})
