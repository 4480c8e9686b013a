import { AT_ONCE } from '../company/runs.ts'
import { asRow, type Bar, type Figure, figure, least, megabytes, most, sum } from '../frame/figures.ts'
import type { Costed } from '../processes/costs.ts'
import type { FullRun, Measured } from './measure.ts'
import { STAGES } from './threads.ts'

/** The company size for which bars of memory are set. */
const STATED_FOR = 20_000
/** For smaller companies, the start outweighs the work per notice. */
const RATIO_FROM = 5000
/** The company of a first try. */
export const FIRST_NOTICES = 30

/** The most that a run with some changed notices may cost, at two sizes. */
const CHANGED_BARS = [
  { notices: 400, changed: 3, cpuSeconds: 0.4 },
  { notices: 20_000, changed: 100, cpuSeconds: 1.2 },
]

export type About = {
  readonly notices: number
  /** The values of the first company of the same bench; null for that one. */
  readonly first: {
    readonly notices: number
    readonly rssMegabytes: number
    readonly changedCpuSeconds: number
  } | null
}

/** All figures, in the order they are printed. */
export function figuresOf(measured: Measured, about: About): Figure[] {
  const { full, scriptFull, first, scriptFirst, status } = measured
  const { notices } = about
  const isStated = notices <= STATED_FOR
  const isCompared = notices >= RATIO_FROM
  return [
    ...costs('full', 'full sync', full, { rss: most(600, isStated) }),
    ...growth(full, about),
    ...stagesOf(full, most(15, isCompared)),
    ...rates(full),
    figure('server_cpu_seconds', 'full sync: CPU of the API, s', 2, full.apiCpuSeconds),
    figure('loop_delay_p99_ms', 'full sync: event-loop delay p99, ms', 1, full.loopDelayMs, most(20)),
    ...costs('script_full', 'script, full', scriptFull),
    ...ratios('full', 'full sync', full, scriptFull, {
      cpu: most(1.15, isCompared),
      wall: most(1.1, isCompared),
    }),
    ...unchangedFigures(measured, { notices, isStated, isCompared }),
    ...changedFigures(measured, about),
    ...costs('first', `first sync of ${FIRST_NOTICES} notices`, first, { cpu: most(0.6) }),
    ...costs('script_first', `script, first of ${FIRST_NOTICES} notices`, scriptFirst),
    ...costs('status', 'status', status, { cpu: most(0.25) }),
    ...threadFigures(full, notices),
  ]
}

/** Figures of a full sync if responses are late. */
export function lateFigures(
  full: FullRun,
  script: Cost,
  { notices, latency }: { readonly notices: number; readonly latency: number },
): Figure[] {
  const isCompared = notices >= RATIO_FROM
  // Each connection can make at most 1000 / latency requests a second.
  const ideal = (Number(AT_ONCE.API_CONCURRENCY) * 1000) / latency
  return [
    ...costs('full', 'full sync', full),
    ...stagesOf(full, most(5, isCompared)),
    ...rates(full),
    figure(
      'ideal_percent',
      'requests, % of what is possible',
      1,
      (perSecond(full) / ideal) * 100,
      least(90, isCompared),
    ),
    ...costs('script_full', 'script, full', script),
    ...ratios('full', 'full sync', full, script, { cpu: null, wall: most(0.9, isCompared) }),
  ]
}

type Cost = Pick<Costed, 'wallSeconds' | 'cpuSeconds' | 'peakRssBytes'>

/** Wall time, CPU time and memory of one command. */
function costs(
  key: string,
  label: string,
  { wallSeconds, cpuSeconds, peakRssBytes }: Cost,
  bars: { readonly cpu?: Bar | null; readonly rss?: Bar | null } = {},
): Figure[] {
  const rss = megabytes(peakRssBytes)
  return [
    figure(`${key}_wall_seconds`, `${label}: wall, s`, 2, wallSeconds),
    figure(`${key}_cpu_seconds`, `${label}: CPU, s`, 2, cpuSeconds, bars.cpu),
    figure(`${key}_peak_rss_megabytes`, `${label}: peak RSS, MB`, 0, rss, bars.rss),
  ]
}

function ratios(
  key: string,
  label: string,
  ours: Cost,
  script: Cost,
  bars: { readonly cpu: Bar | null; readonly wall: Bar | null },
): Figure[] {
  return [
    figure(`${key}_cpu_ratio`, `${label}: CPU / script`, 2, ours.cpuSeconds / script.cpuSeconds, bars.cpu),
    figure(
      `${key}_wall_ratio`,
      `${label}: wall / script`,
      2,
      ours.wallSeconds / script.wallSeconds,
      bars.wall,
    ),
  ]
}

function growth({ peakRssBytes }: FullRun, { notices, first }: About): Figure[] {
  if (first === null || notices <= first.notices) return []
  const percent = (megabytes(peakRssBytes) / first.rssMegabytes - 1) * 100
  const label = `full sync: peak RSS above that at ${first.notices}, %`
  return [figure('full_peak_rss_growth_percent', label, 1, percent, most(15))]
}

/** The stages of the full sync, by the requests that the API received. */
function stagesOf({ asked, startedMs, endedMs, wallSeconds }: FullRun, tailBar: Bar | null): Figure[] {
  const { list, analysis } = asked
  const tail = endedMs - analysis.lastMs
  const seconds = (stage: string, label: string, ms: number) =>
    figure(`full_${stage}_seconds`, `  ${label}, s`, 2, ms / 1000)
  const label = 'full sync: after the last analysis, % of wall'
  return [
    seconds('start', 'to the first request', list.firstMs - startedMs),
    seconds('scan', 'list', list.lastMs - list.firstMs),
    seconds('detect', 'to the first analysis (detect, load notices)', analysis.firstMs - list.lastMs),
    seconds('fetch', 'analyses (loading in parallel)', analysis.lastMs - analysis.firstMs),
    seconds('tail', 'after the last analysis (load, publish)', tail),
    figure('full_tail_percent', label, 1, tail / 10 / wallSeconds, tailBar),
  ]
}

function perSecond({ asked }: FullRun): number {
  const { requests, firstMs, lastMs } = asked.analysis
  return (requests * 1000) / (lastMs - firstMs)
}

function rates(full: FullRun): Figure[] {
  const { report, wallSeconds } = full
  const fetched = megabytes(report.bytes_fetched)
  return [
    figure('notices_per_second', 'full sync: notices/s', 0, report.loaded / wallSeconds),
    figure('megabytes_per_second', 'full sync: MB/s', 1, fetched / wallSeconds),
    figure('fetch_requests_per_second', 'full sync: requests/s, while fetching', 0, perSecond(full)),
  ]
}

function unchangedFigures(
  { unchanged, scriptUnchanged }: Measured,
  about: { notices: number; isStated: boolean; isCompared: boolean },
): Figure[] {
  const { notices, isStated, isCompared } = about
  // Neighbouring pages share one notice: that makes half a percent more pages.
  const mostPages = Math.ceil(Math.ceil(notices / 200) * 1.01) + 1
  const { asked, snapshotsWritten } = unchanged
  const counted = (key: string, label: string, value: number, limit: number) =>
    figure(`unchanged_${key}`, `nothing changed: ${label}`, 0, value, most(limit))
  return [
    ...costs('unchanged', 'nothing changed', unchanged, { rss: most(200, isStated) }),
    counted('list_requests', 'list requests', asked.list.requests, mostPages),
    counted('analysis_requests', 'analysis requests', asked.analysis.requests, 0),
    counted('snapshots', 'new snapshots', snapshotsWritten, 0),
    ...costs('script_unchanged', 'script, nothing changed', scriptUnchanged),
    ...ratios('unchanged', 'nothing changed', unchanged, scriptUnchanged, {
      cpu: most(1, isCompared),
      wall: null,
    }),
  ]
}

function changedFigures(
  { changed, unchanged, scriptChanged }: Measured,
  { notices, first }: About,
): Figure[] {
  const { asked, snapshotsWritten, cpuSeconds } = changed
  // A small company has fewer recent notices than `--changed` asks for.
  const { requests: count } = asked.analysis
  const label = `${count} changed`
  const bar = CHANGED_BARS.find(each => each.notices === notices && each.changed === count)
  return [
    ...costs('changed', label, changed, { cpu: bar ? most(bar.cpuSeconds) : null }),
    figure('changed_list_requests', `${label}: list requests`, 0, asked.list.requests),
    figure('changed_analysis_requests', `${label}: analysis requests`, 0, count),
    figure('changed_snapshots', `${label}: new snapshots`, 0, snapshotsWritten),
    ...costs('script_changed', `script, ${label}`, scriptChanged),
    figure(
      'changed_cpu_ratio',
      `${label}: CPU / nothing changed`,
      2,
      cpuSeconds / unchanged.cpuSeconds,
      most(2, notices >= RATIO_FROM),
    ),
    ...(first !== null && notices > first.notices
      ? [
          figure(
            'changed_growth',
            `${label}: CPU / that at ${first.notices}`,
            2,
            cpuSeconds / first.changedCpuSeconds,
            most(1.5),
          ),
        ]
      : []),
  ]
}

/** CPU seconds of the full sync, by kind of thread and stage; none if the system does not report it. */
function threadFigures({ threads }: FullRun, notices: number): Figure[] {
  if (threads === null) return []
  const table = `CPU of the full sync of ${notices.toLocaleString('en-US')} notices by thread and stage, s`
  const stages = (of: (stage: (typeof STAGES)[number]) => number) =>
    [...STAGES.map(stage => [stage, of(stage)] as const), ['all', sum(STAGES.map(of))] as const].map(
      ([stage, seconds]) => figure(stage, stage, 2, seconds),
    )
  return [
    ...Object.entries(threads).flatMap(([kind, spent]) =>
      asRow(
        table,
        kind,
        stages(stage => spent[stage]),
      ),
    ),
    ...asRow(
      table,
      'all',
      stages(stage => sum(Object.values(threads).map(spent => spent[stage]))),
    ),
  ]
}
