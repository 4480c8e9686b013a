import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { latestLink } from '#src/core/lake/manifest.ts'
import { VIEWS } from '#src/marts/marts.ts'
import type { MartOrder, MartTimes } from '../bi/mart.ts'
import { type Api, type Company, companyOf, startApi } from '../company/api.ts'
import { filesOf } from '../company/files.ts'
import { pathsOf, placeOf, runAt } from '../company/place.ts'
import { syncChanged, syncOnce } from '../company/runs.ts'
import { asRow, type Figure, figure, median, megabytes, most, sum } from '../frame/figures.ts'
import { type Bench, count, ROUNDS, situation } from '../frame/situation.ts'
import { answerOf } from '../processes/processes.ts'

/** The company size for which the bars of time and of the report are set. */
const STATED_FOR = 20_000
/** For smaller companies, catalog and manifest outweigh the files that grow with the notices. */
const SHARE_FROM = 5000
const WRITTEN_PERCENT = 20
const MART = fileURLToPath(new URL('../bi/mart.ts', import.meta.url))

export const bi = situation({
  name: 'bi',
  about:
    "A snapshot's readers on a generated company: every mart, the report, and how much a snapshot writes after 0.5 % of the notices changed, all in the two newest months.",
  options: { notices: count('size of the company', 20_000), ...ROUNDS },
  async measure(bench, options) {
    bench.step('generating')
    const company = companyOf(options)
    const api = await startApi([company])
    const figures = await bench.rounds(async round => figuresOf(await measureRound(round, api, company)))
    await api.close()
    return figures
  },
})

export type Measured = {
  readonly notices: number
  readonly changes: number
  readonly written: Written
  readonly report: { readonly wallSeconds: number; readonly bytes: number }
  /** By name of the mart, each in its own process. */
  readonly marts: Readonly<Record<string, MartTimes>>
}

/**
 * A full sync, one with some notices changed, and then the latest snapshot as readers find it, with several
 * versions of some notices. No notice changes its phase: the marts of phase changes scan all and find none.
 * @throws Error if a run did not do the expected work.
 */
async function measureRound(bench: Bench, api: Api, company: Company): Promise<Measured> {
  const { notices } = company
  const place = await placeOf(bench.directory, { ...company, url: api.url })
  bench.step('full sync')
  await syncOnce(api, place, { loaded: notices, full: true })
  const latest = () => realpath(latestLink(pathsOf(place).lake))
  const before = await latest()
  bench.step('some notices of the newest months changed')
  const { report: changed } = await syncChanged(api, place)
  const after = await latest()
  if (after === before) throw new Error('The change was not published')
  const written = await compareSnapshots(before, after)
  bench.step('marts')
  const marts: Record<string, MartTimes> = {}
  // One after another, so that each has all cores, as a single reader has.
  for (const { name } of VIEWS) {
    const order: MartOrder = { catalog: join(after, 'catalog.duckdb'), mart: name }
    marts[name] = await answerOf<MartTimes>(MART, order, bench.directory)
  }
  bench.step('report')
  const output = join(bench.directory, 'report.html')
  const { wallSeconds } = await runAt(place, 'report', ['--output', output])
  return {
    ...{ notices, changes: changed.loaded, written, marts },
    report: { wallSeconds, bytes: (await stat(output)).size },
  }
}

/** The figures of a round, with the bars that apply to this company's size. */
export function figuresOf(measured: Measured): Figure[] {
  const { notices, marts, report, changes, written } = measured
  const isStated = notices <= STATED_FOR
  const times = Object.values(marts)
  const rss = megabytes(Math.max(...times.map(({ peakRssBytes }) => peakRssBytes)))
  const share = (written.bytes / written.snapshotBytes) * 100
  return [
    figure('open_ms', 'opening the catalog (median of the marts), ms', 1, median(times.map(m => m.openMs))),
    figure('mart_peak_rss_megabytes', 'a process that reads a mart: highest peak RSS, MB', 0, rss),
    figure('report_wall_seconds', 'report: wall, s', 2, report.wallSeconds, most(5, isStated)),
    figure('report_megabytes', 'report: MB', 3, megabytes(report.bytes), most(2, isStated)),
    figure('changes', 'notices changed, in the two newest months', 0, changes),
    figure('snapshot_megabytes', '  the whole new snapshot, MB', 2, megabytes(written.snapshotBytes)),
    figure('written_megabytes', '  written for it, MB', 2, megabytes(written.bytes)),
    figure('written_percent', '  written for it, %', 1, share, most(WRITTEN_PERCENT, notices >= SHARE_FROM)),
    ...Object.entries(marts).flatMap(([name, { rows, firstMs, warmMs }]) =>
      asRow('mart', name, [
        figure('rows', 'rows', 0, rows),
        figure('first_ms', 'first, ms', 1, firstMs),
        figure('warm_ms', 'warm, ms', 1, warmMs, most(200, isStated)),
      ]),
    ),
  ]
}

/** Measures what a snapshot wrote, without the files that it shares with the previous one; whole files, in bytes. */
type Written = {
  readonly snapshotBytes: number
  /** Of all files that the previous snapshot does not have. */
  readonly bytes: number
}

/** Compares two snapshots file by file: a shared file has the same inode in both. @throws Error if one has none. */
async function compareSnapshots(before: string, after: string): Promise<Written> {
  const known = new Set((await filesOf(before)).map(({ inode }) => inode))
  const files = await filesOf(after)
  if (known.size === 0 || files.length === 0) throw new Error(`No files in ${before} or ${after}`)
  const own = files.filter(({ inode }) => !known.has(inode))
  const bytesOf = (some: typeof files) => sum(some.map(({ bytes }) => bytes))
  return { snapshotBytes: bytesOf(files), bytes: bytesOf(own) }
}
