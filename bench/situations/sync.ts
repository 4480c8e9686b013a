import { companyOf, startApi } from '../company/api.ts'
import { asColumn, type Figure, medianOf } from '../frame/figures.ts'
import { type Bench, count, counts, ROUNDS, situation } from '../frame/situation.ts'
import { type About, FIRST_NOTICES, figuresOf, lateFigures } from '../sync/figures.ts'
import { type Mirrored, measureFirst, measureFull, measureRound } from '../sync/measure.ts'

type Options = {
  readonly changed: number
  readonly latency: readonly number[]
  readonly seed: string
}

export const sync = situation({
  name: 'sync',
  about:
    'Syncs of a generated company beside a script that mirrors the same API (bench/script): a full one, also of an API that takes time to answer, one with nothing changed, one with some notices changed, and the first one of 30 notices; also `status`. docs/internals/bench.md explains it.',
  options: {
    notices: counts('size of the company; several sizes, separated by commas, are compared', [20_000]),
    changed: count('notices of the two newest months that change, at most all of them', 100),
    latency: counts(
      'latencies of each API response, in ms: with any but 0, only the full sync is measured',
      [0, 20],
      0,
    ),
    ...ROUNDS,
  },
  async measure(bench, options) {
    const all: Figure[] = []
    let first: About['first'] = null
    for (const notices of options.notices) {
      const name = `${notices.toLocaleString('en-US')} notices`
      if (options.latency.includes(0)) {
        const figures = await measureCompany(bench, options, { notices, first })
        first ??= {
          notices,
          rssMegabytes: medianOf(figures, 'full_peak_rss_megabytes'),
          changedCpuSeconds: medianOf(figures, 'changed_cpu_seconds'),
        }
        all.push(...asColumn(name, figures))
      }
      for (const latency of options.latency.filter(ms => ms > 0))
        all.push(
          ...asColumn(`${name}, ${latency} ms`, await measureLate(bench, options, { notices, latency })),
        )
    }
    return all
  },
})

async function measureCompany(
  bench: Bench,
  { changed: changing, seed }: Options,
  { notices, first }: Pick<About, 'notices' | 'first'>,
): Promise<Figure[]> {
  const size = notices.toLocaleString('en-US')
  const start = async (notices: number): Promise<Mirrored> => {
    const company = companyOf({ notices, seed })
    return { company, api: await startApi([company]) }
  }
  bench.step(`${size} notices: generating`)
  const [company, small] = [await start(notices), await start(FIRST_NOTICES)]
  // The first run of any program compiles and reads what later ones find cached.
  bench.step('warm-up')
  await measureFirst(small, await bench.folder(`warm-up-${notices}`))
  const figures = await bench.rounds(async round => {
    const directory = await round.folder(String(notices))
    const step = (text: string) => round.step(`${size} notices: ${text}`)
    const measured = await measureRound(company, small, { directory, step, changing })
    const { full, unchanged, changed } = measured
    round.record('reports', {
      notices,
      full: full.report,
      unchanged: unchanged.report,
      changed: changed.report,
    })
    return figuresOf(measured, { notices, first })
  })
  const [about] = company.api.about
  if (about) {
    bench.record('companies', about)
    const children = `${about.averageChildren.toFixed(1)} child rows on average`
    const kilobytes = (bytes: number) => (bytes / 1000).toFixed(1)
    bench.note(
      `${size} notices: ${kilobytes(about.averageBytes)} kB and ${children}, the largest ${kilobytes(about.largestBytes)} kB; zstd shrinks them ${about.compression.toFixed(1)} times`,
    )
  }
  await company.api.close()
  await small.api.close()
  return figures
}

/** Measures the full sync and the script with an API that takes time to answer. */
async function measureLate(
  bench: Bench,
  { seed }: Options,
  { notices, latency }: { readonly notices: number; readonly latency: number },
): Promise<Figure[]> {
  const company = companyOf({ notices, seed })
  const api = await startApi([company], latency)
  const figures = await bench.rounds(async round => {
    const directory = await round.folder(`${notices}-${latency}`)
    const step = (text: string) =>
      round.step(`${notices.toLocaleString('en-US')} notices, ${latency} ms: ${text}`)
    const { full, scriptFull } = await measureFull({ company, api }, { directory, step })
    return lateFigures(full, scriptFull, { notices, latency })
  })
  await api.close()
  return figures
}
