import type { Figures } from './figures.ts'

/** The company size for which the bars are set. */
const STATED_FOR = 20_000
/** For smaller companies, the startup outweighs the work per notice. */
const RATIO_FROM = 5000

/** A bar and whether it was met. */
export type Verdict = {
  readonly what: string
  readonly value: number
  readonly limit: number
  /** `least`: the value must not be below the limit; `most`: not above it. */
  readonly kind: 'most' | 'least'
  readonly met: boolean
}

/** A bar for the sync of a company. */
export type Bar = Verdict & { readonly notices: number }

export type Sized = { readonly notices: number; readonly figures: Figures }

/** The bars that apply to these companies; larger companies are compared with the first one. */
export function judge(companies: readonly Sized[], about: { latencyMs: number; concurrency: number }): Bar[] {
  return companies.flatMap(company =>
    about.latencyMs > 0
      ? throughputBar(company, about.latencyMs, about.concurrency)
      : [...fullBars(company), ...incrementalBars(company), ...growthBar(company, companies[0])],
  )
}

function bar(company: Sized, what: string, value: number, kind: Bar['kind'], limit: number): Bar {
  return { notices: company.notices, ...verdict(what, value, kind, limit) }
}

export function verdict(what: string, value: number, kind: Verdict['kind'], limit: number): Verdict {
  return { what, value, limit, kind, met: kind === 'most' ? value <= limit : value >= limit }
}

function figure({ figures }: Sized, key: string): number {
  const value = figures[key]
  if (typeof value !== 'number') throw new Error(`no figure named ${key}`)
  return value
}

function fullBars(company: Sized): Bar[] {
  const rss = figure(company, 'full_peak_rss_megabytes')
  const bars = [
    bar(company, 'full sync: event-loop delay p99, ms', figure(company, 'loop_delay_p99_ms'), 'most', 50),
  ]
  if (company.notices <= STATED_FOR) bars.push(bar(company, 'full sync: peak RSS, MB', rss, 'most', 1200))
  if (company.notices >= RATIO_FROM) {
    bars.push(bar(company, 'full sync: wall / (fetch + load)', figure(company, 'wall_ratio'), 'most', 1.5))
  }
  return bars
}

function growthBar(company: Sized, smallest: Sized | undefined): Bar[] {
  if (!smallest || company.notices <= smallest.notices) return []
  const growth = figure(company, 'full_peak_rss_megabytes') / figure(smallest, 'full_peak_rss_megabytes') - 1
  return [bar(company, `full sync: peak RSS above that at ${smallest.notices}, %`, growth * 100, 'most', 15)]
}

function incrementalBars(company: Sized): Bar[] {
  const pages = Math.ceil(company.notices / 200)
  const wall = figure(company, 'unchanged_wall_seconds')
  const bars = [
    // Neighbouring pages share one notice: that makes half a percent more pages.
    bar(
      company,
      'nothing changed: list requests',
      figure(company, 'unchanged_list_requests'),
      'most',
      Math.ceil(pages * 1.01) + 1,
    ),
    bar(
      company,
      'nothing changed: analysis requests',
      figure(company, 'unchanged_analysis_requests'),
      'most',
      0,
    ),
    bar(company, 'nothing changed: new snapshots', figure(company, 'unchanged_snapshots'), 'most', 0),
  ]
  if (company.notices > STATED_FOR) return bars
  const rss = figure(company, 'unchanged_peak_rss_megabytes')
  const changed = figure(company, 'changed_wall_seconds')
  return [
    ...bars,
    bar(company, 'nothing changed: wall, s', wall, 'most', 3),
    bar(company, 'nothing changed: peak RSS, MB', rss, 'most', 300),
    bar(company, '0.5 % changed: wall beyond nothing changed, s', changed - wall, 'most', 2),
  ]
}

/** With latency, each connection can make at most 1000 / latency requests a second. */
function throughputBar(company: Sized, latencyMs: number, concurrency: number): Bar[] {
  const ideal = (concurrency * 1000) / latencyMs
  const share = (figure(company, 'fetch_requests_per_second') / ideal) * 100
  return [bar(company, `requests/s while fetching, % of the ideal ${Math.round(ideal)}`, share, 'least', 90)]
}
