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
      : [
          ...fullBars(company),
          ...growthBar(company, companies[0]),
          ...incrementalBars(company),
          ...startBars(company),
        ],
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
  const { notices } = company
  const of = (key: string) => figure(company, key)
  const bars = [bar(company, 'full sync: event-loop delay p99, ms', of('loop_delay_p99_ms'), 'most', 20)]
  if (notices <= STATED_FOR) {
    bars.push(bar(company, 'full sync: peak RSS, MB', of('full_peak_rss_megabytes'), 'most', 600))
  }
  if (notices < RATIO_FROM) return bars
  return [
    bar(company, 'full sync: CPU / script', of('full_cpu_ratio'), 'most', 0.7),
    bar(company, 'full sync: wall / script', of('full_wall_ratio'), 'most', 0.6),
    ...bars,
    bar(company, 'full sync: after the last analysis, % of wall', of('full_tail_percent'), 'most', 15),
  ]
}

function growthBar(company: Sized, smallest: Sized | undefined): Bar[] {
  if (!smallest || company.notices <= smallest.notices) return []
  const growth = figure(company, 'full_peak_rss_megabytes') / figure(smallest, 'full_peak_rss_megabytes') - 1
  return [bar(company, `full sync: peak RSS above that at ${smallest.notices}, %`, growth * 100, 'most', 15)]
}

function incrementalBars(company: Sized): Bar[] {
  const pages = Math.ceil(company.notices / 200)
  const of = (key: string) => figure(company, key)
  // Neighbouring pages share one notice: that makes half a percent more pages.
  const mostPages = Math.ceil(pages * 1.01) + 1
  const bars = [
    bar(company, 'nothing changed: list requests', of('unchanged_list_requests'), 'most', mostPages),
    bar(company, 'nothing changed: analysis requests', of('unchanged_analysis_requests'), 'most', 0),
    bar(company, 'nothing changed: new snapshots', of('unchanged_snapshots'), 'most', 0),
  ]
  if (company.notices <= STATED_FOR) {
    bars.push(bar(company, 'nothing changed: peak RSS, MB', of('unchanged_peak_rss_megabytes'), 'most', 200))
  }
  if (company.notices < RATIO_FROM) return bars
  return [
    ...bars,
    bar(company, 'nothing changed: CPU / script', of('unchanged_cpu_ratio'), 'most', 1),
    bar(company, '0.5 % changed: CPU / nothing changed', of('changed_cpu_ratio'), 'most', 2),
  ]
}

function startBars(company: Sized): Bar[] {
  return [
    bar(company, 'first sync of 30 notices: CPU, s', figure(company, 'first_cpu_seconds'), 'most', 0.5),
    bar(company, 'status: CPU, s', figure(company, 'status_cpu_seconds'), 'most', 0.25),
  ]
}

/** With latency, each connection can make at most 1000 / latency requests a second. */
function throughputBar(company: Sized, latencyMs: number, concurrency: number): Bar[] {
  const ideal = (concurrency * 1000) / latencyMs
  const share = (figure(company, 'fetch_requests_per_second') / ideal) * 100
  return [bar(company, `requests/s while fetching, % of the ideal ${Math.round(ideal)}`, share, 'least', 90)]
}
