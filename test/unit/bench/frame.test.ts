import { existsSync, globSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { describe, expect, it, test, vi } from 'vitest'
import { FatalError } from '#src/lib/errors.ts'
import {
  asColumn,
  asRow,
  type Figure,
  figure,
  judge,
  least,
  median,
  merged,
  most,
  percentile,
} from '../../../bench/frame/figures.ts'
import { runBench } from '../../../bench/frame/runner.ts'
import { type Bench, count, counts, ROUNDS, situation } from '../../../bench/frame/situation.ts'
import { type Asked, requestOverlap } from '../../../bench/hosts/requests.ts'

const verdictOf = (given: Figure) => judge([given])[0]

describe('A bar', () => {
  it('is met at its limit, and missed beyond it', () => {
    const upTo = (value: number) => verdictOf(figure('k', 'k', 0, value, most(2)))?.met
    const from = (value: number) => verdictOf(figure('k', 'k', 0, value, least(2)))?.met
    expect([1.9, 2, 2.01].map(upTo)).toEqual([true, true, false])
    expect([1.99, 2, 2.1].map(from)).toEqual([false, true, true])
    expect([Number.POSITIVE_INFINITY, Number.NaN].map(upTo)).toEqual([false, false])
    expect(from(Number.NaN)).toBe(false)
  })

  it('is judged by the median of the rounds', () => {
    const rounds = (bar: ReturnType<typeof most>) =>
      merged([1, 5, 3].map(value => [figure('k', 'k', 0, value, bar)]))[0] as Figure
    expect(verdictOf(rounds(most(4)))).toMatchObject({ value: 3, met: true })
    expect(verdictOf(rounds(least(4)))).toMatchObject({ value: 3, met: false })
  })

  it('is not judged where it does not apply, nor without a value', () => {
    expect(judge([figure('k', 'k', 0, 9, most(1, false)), figure('k', 'k', 0, null, most(1))])).toEqual([])
  })

  it('names its figure with the table, row and column', () => {
    const bar = most(1)
    const what = (figures: Figure[]) => judge(figures).map(verdict => verdict.what)
    expect(what([figure('k', '  wall, s', 0, 1, bar)])).toEqual(['wall, s'])
    expect(what(asColumn('20 notices', [figure('k', 'wall, s', 0, 1, bar)]))).toEqual(['20 notices, wall, s'])
    expect(what(asRow('serve', 'idle', [figure('k', 'p99, ms', 0, 1, bar)]))).toEqual([
      'serve, idle: p99, ms',
    ])
  })
})

it('the median of an even number is the mean of the middle two', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
})

it('a percentile is the value that this share of the values does not exceed', () => {
  const values = Array.from({ length: 200 }, (_, index) => 200 - index)
  expect([0.5, 0.99, 1].map(share => percentile(values, share))).toEqual([100, 198, 200])
})

/** Runs the bench with one situation, and collects what it prints. */
async function runWith(
  measure: (bench: Bench, options: { limit: number; runs: number }) => Promise<Figure[]>,
  ...args: string[]
) {
  let printed = ''
  const endAll = vi.fn(async () => {})
  const fake = situation({
    name: 'fake',
    about: 'Measures nothing.',
    options: { limit: count('the limit', 1), sizes: counts('some', [1, 2]), ...ROUNDS },
    measure,
  })
  const quiet = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    const print = (text: string) => {
      printed += text
    }
    const code = await runBench([fake], args, { print, endAll })
    return { code, printed, endAll, progress: quiet.mock.calls.map(([text]) => text).join('') }
  } finally {
    quiet.mockRestore()
  }
}

const found =
  (value: number) =>
  async (_: Bench, { limit }: { limit: number }) => [figure('seconds', 'a run, s', 1, value, most(limit))]

describe('The runner', () => {
  it('exits with 1 if a bar is missed, and shows it; otherwise with 0', async () => {
    const missed = await runWith(found(2.04))
    expect(missed.code).toBe(1)
    expect(missed.printed).toMatch(/a run, s\s+│\s+2 │/)
    expect(missed.printed).toMatch(/a run, s │\s+2.04 │ <= 1\s+│ MISSED/)
    const met = await runWith(found(2), '--limit', '2')
    expect(met.code).toBe(0)
    expect(met.printed).toMatch(/<= 2\s+│ met/)
    expect((await runWith(found(3), 'fake', '--json')).code).toBe(1)
  })

  it('prints the same shape of JSON for every situation', async () => {
    const { printed } = await runWith(
      async bench => {
        bench.note('a note')
        bench.record('reports', { loaded: 3 })
        return [figure('seconds', 'a run, s', 1, 2.06, most(3)), figure('none', 'nothing', 0, null)]
      },
      '--json',
      '--limit',
      '4',
    )
    expect(JSON.parse(printed)).toEqual({
      situation: 'fake',
      machine: expect.stringContaining('cores'),
      options: { limit: 4, sizes: [1, 2], runs: 1, seed: 'bench' },
      figures: [
        { key: 'seconds', label: 'a run, s', table: null, column: null, value: 2.06, values: [2.06] },
        { key: 'none', label: 'nothing', table: null, column: null, value: null, values: [] },
      ],
      bars: [{ what: 'a run, s', value: 2.06, kind: 'most', limit: 3, met: true }],
      notes: ['a note'],
      records: { reports: [{ loaded: 3 }] },
    })
  })

  it('measures rounds in directories of their own, and shows the median with the least and the greatest value', async () => {
    const directories: string[] = []
    const values = [5, 2, 3]
    const { printed, progress } = await runWith(
      bench =>
        bench.rounds(async (round, number) => {
          directories.push(round.directory)
          expect(directories.filter(existsSync)).toEqual([round.directory])
          round.step('measuring')
          return [figure('seconds', 'a run, s', 0, values[number - 1] as number)]
        }),
      '--runs',
      '3',
    )
    expect(printed).toMatch(/a run, s │ 3 \(2-5\)/)
    expect(progress).toContain('measuring (2 of 3)\n')
    expect(new Set(directories).size).toBe(3)
  })

  it('compares columns, and has a table for figures side by side', async () => {
    const { printed } = await runWith(async () => [
      ...asColumn('10 notices', [figure('seconds', 'a run, s', 0, 1), figure('only', 'only here', 0, 7)]),
      ...asColumn('20 notices', [figure('seconds', 'a run, s', 0, 2)]),
      ...asRow('mart', 'funil', [figure('rows', 'rows', 0, 6), figure('warm', 'warm, ms', 1, 1.25)]),
    ])
    expect(printed).toMatch(/a run, s\s+│\s+1 │\s+2 │/)
    expect(printed).toMatch(/only here\s+│\s+7 │\s+- │/)
    expect(printed).toMatch(/mart\s+│ rows │ warm, ms/)
    expect(printed).toMatch(/funil │\s+6 │\s+1.\d │/)
  })

  it('ends all processes and removes its directory, also after a failure', async () => {
    const directories: string[] = []
    const leave = async ({ directory }: Bench) => {
      directories.push(directory)
      await writeFile(join(directory, 'file'), 'x')
    }
    const whole = await runWith(async bench => {
      await leave(bench)
      return []
    })
    expect(whole.endAll).toHaveBeenCalledOnce()
    const failing = runWith(async bench => {
      await leave(bench)
      throw new Error('it broke')
    })
    await expect(failing).rejects.toThrow('it broke')
    expect(directories).toHaveLength(2)
    expect(directories.filter(existsSync)).toEqual([])
  })

  it('explains what the user can mend in one sentence, and refuses wrong options', async () => {
    const needy = await runWith(async () => {
      throw new FatalError('It needs Redis.')
    })
    expect([needy.code, needy.progress]).toEqual([1, 'It needs Redis.\n'])
    expect((await runWith(found(1), '--limit', 'much')).code).toBe(2)
    expect((await runWith(found(1), '--sizes', '3,many')).code).toBe(2)
    expect((await runWith(found(1), '--unknown')).code).toBe(2)
    expect((await runWith(found(1), 'unknown')).code).toBe(2)
  })
})

const ROOT = join(import.meta.dirname, '../../..')
const FILES = globSync('bench/**/*.ts', { cwd: ROOT }).sort()

/** What each file imports of the bench, types included. */
const imports = FILES.flatMap(file =>
  [...readFileSync(join(ROOT, file), 'utf8').matchAll(/\bfrom '(\.[^']+)'/g)].map(
    ([, name = '']) => [file, posix.join(dirname(file), name)] as const,
  ),
)

/** What remains if, again and again, everything that imports nothing is taken away. */
function circles(pairs: readonly (readonly [string, string])[]): string[] {
  const left = pairs.filter(([from]) => pairs.some(([, to]) => to === from))
  const rest = left.filter(([, to]) => left.some(([from]) => from === to))
  if (rest.length === pairs.length) return [...new Set(rest.map(([from]) => from))]
  return circles(rest)
}

test('No files of the bench import each other in a circle', () => {
  expect(circles(imports)).toEqual([])
  expect(imports.length).toBeGreaterThan(FILES.length)
  expect(circles([...imports, ['bench/frame/figures.ts', 'bench/main.ts']])).toContain('bench/main.ts')
})

test('No folders of the bench import each other in a circle', () => {
  const folders = imports.map(([from, to]) => [dirname(from), dirname(to)] as const)
  expect(circles(folders.filter(([from, to]) => from !== to))).toEqual([])
})

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
