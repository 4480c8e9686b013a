import { expect, test } from 'vitest'
import { type Asked, requestOverlap } from '../../../bench/hosts/requests.ts'

/** One request a second: `a1 list` is of host a, on its first connection. */
function requests(...lines: string[]): Asked[] {
  return lines.map((line, index) => {
    const [from = '', kind = '', company = 'acme'] = line.split(' ')
    const about = { address: from.slice(0, -1), connection: Number.parseInt(from, 36), version: 'v' }
    return { ...about, kind: kind as Asked['kind'], company, atMs: index * 1000 }
  })
}

test.each([
  ['one after the other', ['a1 list', 'a1 analysis', 'b1 list', 'b1 analysis', 'a1 list', 'a1 analysis'], 0],
  ['a killed run and its successor', ['a1 list', 'a1 analysis', 'b1 list', 'b1 analysis', 'b1 analysis'], 0],
  ['different companies', ['a1 list', 'b1 list beta', 'b1 analysis beta', 'a1 analysis'], 0],
  ['a list alone, as of a look', ['a1 list', 'b1 list', 'a1 analysis'], 0],
  ['both at the same time', ['a1 list', 'b1 list', 'a1 analysis', 'b1 analysis', 'a1 analysis'], 2],
  [
    'a run that goes on after another one',
    ['a1 list', 'a1 analysis', 'b1 list', 'b1 analysis', 'a1 analysis', 'a2 analysis'],
    1,
  ],
  ['an analysis without a list', ['b1 list', 'b1 analysis', 'a1 analysis'], 1],
])('%s', (_, lines, runs) => {
  expect(requestOverlap(requests(...lines), [])).toEqual({ runs, late: 0 })
})

test('what may have been sent before a cut does not count, what follows it does', () => {
  const cuts = [{ address: 'a', fromMs: 1500, toMs: 3500 }]
  const before = ['a1 list', 'a1 analysis', 'b1 list', 'b1 analysis']
  expect(requestOverlap(requests(...before, 'a1 analysis'), cuts)).toEqual({ runs: 0, late: 1 })
  expect(requestOverlap(requests(...before, 'a1 analysis', 'a1 analysis'), cuts)).toEqual({
    runs: 1,
    late: 1,
  })
  // A connection that was opened after the cut.
  expect(requestOverlap(requests(...before, 'a2 analysis'), cuts)).toEqual({ runs: 1, late: 0 })
})
