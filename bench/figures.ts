import type { Costed } from './cost.ts'
import { FIRST_NOTICES, type Measured } from './measure.ts'
import type { SyncRun } from './sync_run.ts'
import { type CpuByThread, STAGES, type Stage } from './threads.ts'

/** A number that the benchmark prints, and how it is computed. */
export type Figure<M = Measured> = {
  readonly key: string
  readonly label: string
  /** Number of significant decimals. */
  readonly digits: number
  /** Null if it does not apply. */
  readonly of: (measured: M) => number | null
}

export type Figures = Readonly<Record<string, number | null>>
export type Spreads = Readonly<Record<string, { readonly least: number; readonly most: number } | null>>

const megabytes = (bytes: number) => bytes / 1e6
const since = (fromMs: number, toMs: number) => (toMs - fromMs) / 1000
const tailSeconds = ({ full }: Measured) => since(full.asked.analysis.lastMs, full.endedMs)

type Cost = Pick<Costed, 'wallSeconds' | 'cpuSeconds' | 'peakRssBytes'>

/** Wall time, CPU time and memory of one command. */
function costs(key: string, label: string, of: (measured: Measured) => Cost): Figure[] {
  return [
    { key: `${key}_wall_seconds`, label: `${label}: wall, s`, digits: 2, of: m => of(m).wallSeconds },
    { key: `${key}_cpu_seconds`, label: `${label}: CPU, s`, digits: 2, of: m => of(m).cpuSeconds },
    {
      key: `${key}_peak_rss_megabytes`,
      label: `${label}: peak RSS, MB`,
      digits: 0,
      of: m => megabytes(of(m).peakRssBytes),
    },
  ]
}

/** The phases of the full sync, by the requests that the API received. */
const phases: readonly Figure[] = [
  {
    key: 'full_start_seconds',
    label: '  to the first request, s',
    digits: 2,
    of: ({ full }) => since(full.startedMs, full.asked.list.firstMs),
  },
  {
    key: 'full_scan_seconds',
    label: '  list, s',
    digits: 2,
    of: ({ full }) => since(full.asked.list.firstMs, full.asked.list.lastMs),
  },
  {
    key: 'full_detect_seconds',
    label: '  to the first analysis (detect, load notices), s',
    digits: 2,
    of: ({ full }) => since(full.asked.list.lastMs, full.asked.analysis.firstMs),
  },
  {
    key: 'full_fetch_seconds',
    label: '  analyses (loading in parallel), s',
    digits: 2,
    of: ({ full }) => since(full.asked.analysis.firstMs, full.asked.analysis.lastMs),
  },
  {
    key: 'full_tail_seconds',
    label: '  after the last analysis (load, publish), s',
    digits: 2,
    of: tailSeconds,
  },
]

const rates: readonly Figure[] = [
  {
    key: 'notices_per_second',
    label: 'full sync: notices/s',
    digits: 0,
    of: ({ full }) => full.report.loaded / full.wallSeconds,
  },
  {
    key: 'megabytes_per_second',
    label: 'full sync: MB/s',
    digits: 1,
    of: ({ full }) => megabytes(full.report.bytes_fetched) / full.wallSeconds,
  },
  {
    key: 'fetch_requests_per_second',
    label: 'full sync: requests/s, while fetching',
    digits: 0,
    of: ({ full: { asked } }) =>
      asked.analysis.requests / since(asked.analysis.firstMs, asked.analysis.lastMs),
  },
]

const loopDelays: readonly Figure[] = (['p50', 'p99', 'max'] as const).map(key => ({
  key: `loop_delay_${key}_ms`,
  label: `full sync: event-loop delay ${key}, ms`,
  digits: 1,
  of: ({ full }) => full.loopDelayMs[key],
}))

const full: readonly Figure[] = [
  ...costs('full', 'full sync', ({ full }) => full),
  ...phases,
  ...rates,
  ...loopDelays,
  ...costs('script_full', 'script, full', ({ scriptFull }) => scriptFull),
  ...costs('requests', 'requests alone', ({ requests }) => requests),
  {
    key: 'requests_server_cpu_seconds',
    label: '  CPU of the API, s',
    digits: 2,
    of: ({ requests }) => requests.serverCpuSeconds,
  },
  {
    key: 'server_cpu_seconds',
    label: '  CPU of the API during the full sync, s',
    digits: 2,
    of: ({ full }) => full.serverCpuSeconds,
  },
  ...costs('load', 'plain DuckDB', ({ load }) => load),
  ...(['read', 'insert', 'checkpoint', 'parquet'] as const).map(step => ({
    key: `load_${step}_seconds`,
    label: `  ${step}, s`,
    digits: 2,
    of: ({ load }: Measured) => load.steps[step],
  })),
  {
    key: 'compression_cpu_seconds',
    label: 'compression alone (zstd 1): CPU, s',
    digits: 2,
    of: ({ compression }) => compression.cpuSeconds,
  },
  {
    key: 'full_wall_ratio',
    label: 'full sync / script: wall',
    digits: 2,
    of: ({ full, scriptFull }) => full.wallSeconds / scriptFull.wallSeconds,
  },
  {
    key: 'full_cpu_ratio',
    label: 'full sync / script: CPU',
    digits: 2,
    of: ({ full, scriptFull }) => full.cpuSeconds / scriptFull.cpuSeconds,
  },
  {
    key: 'full_tail_percent',
    label: 'full sync: after the last analysis, % of wall',
    digits: 1,
    of: measured => (tailSeconds(measured) / measured.full.wallSeconds) * 100,
  },
]

function incremental(name: 'unchanged' | 'changed', label: string): Figure[] {
  const figure = (key: string, what: string, of: (run: SyncRun) => number): Figure => ({
    key: `${name}_${key}`,
    label: `${label}: ${what}`,
    digits: 0,
    of: measured => of(measured[name]),
  })
  const script = name === 'unchanged' ? 'scriptUnchanged' : 'scriptChanged'
  return [
    ...costs(name, label, measured => measured[name]),
    figure('list_requests', 'list requests', ({ asked }) => asked.list.requests),
    figure('analysis_requests', 'analysis requests', ({ asked }) => asked.analysis.requests),
    figure('snapshots', 'new snapshots', ({ snapshotsWritten }) => snapshotsWritten),
    ...costs(`script_${name}`, `script, ${label}`, measured => measured[script]),
  ]
}

/** All figures, in the order they are printed. */
export const FIGURES: readonly Figure[] = [
  ...full,
  ...incremental('unchanged', 'nothing changed'),
  {
    key: 'unchanged_cpu_ratio',
    label: 'nothing changed / script: CPU',
    digits: 2,
    of: ({ unchanged, scriptUnchanged }) => unchanged.cpuSeconds / scriptUnchanged.cpuSeconds,
  },
  ...incremental('changed', '0.5 % changed'),
  {
    key: 'changed_cpu_ratio',
    label: '0.5 % changed / nothing changed: CPU',
    digits: 2,
    of: ({ changed, unchanged }) => changed.cpuSeconds / unchanged.cpuSeconds,
  },
  ...costs('first', `first sync of ${FIRST_NOTICES} notices`, ({ first }) => first),
  ...costs('script_first', `script, first of ${FIRST_NOTICES} notices`, ({ scriptFirst }) => scriptFirst),
  ...costs('status', 'status', ({ status }) => status),
]

/** The median of each figure over the runs. */
export function medians(runs: readonly Measured[]): Figures {
  return Object.fromEntries(
    valuesOf(runs).map(([key, values]) => [key, values.length > 0 ? median(values) : null]),
  )
}

/** The least and the greatest value of each figure. */
export function spreads(runs: readonly Measured[]): Spreads {
  return Object.fromEntries(
    valuesOf(runs).map(([key, values]) => [
      key,
      values.length > 0 ? { least: Math.min(...values), most: Math.max(...values) } : null,
    ]),
  )
}

function valuesOf(runs: readonly Measured[]): [string, number[]][] {
  return FIGURES.map(({ key, of }) => [key, runs.map(of).filter(value => value !== null)])
}

/** The median CPU time of each kind of thread in each stage; null if threads were not sampled. */
export function medianThreads(runs: readonly Measured[]): CpuByThread | null {
  const sampled = runs.map(({ full }) => full.threads).filter(threads => threads !== null)
  if (sampled.length === 0) return null
  const kinds = [...new Set(sampled.flatMap(threads => Object.keys(threads)))]
  const of = (kind: string, stage: Stage) => median(sampled.map(threads => threads[kind]?.[stage] ?? 0))
  return Object.fromEntries(
    kinds.map(kind => [kind, Object.fromEntries(STAGES.map(stage => [stage, of(kind, stage)]))]),
  ) as CpuByThread
}

/** Expects at least one value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}
