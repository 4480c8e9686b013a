import type { Measured, SyncRun } from './measure.ts'

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

const wall = (run: SyncRun) => (run.endedMs - run.startedMs) / 1000
const cpu = ({ cost }: SyncRun) => cost.cpuUserSeconds + cost.cpuSystemSeconds
const megabytes = (bytes: number) => bytes / 1e6
const since = (fromMs: number, toMs: number) => (toMs - fromMs) / 1000
const floorWall = ({ fetchFloor, loadFloor }: Measured) => fetchFloor.wallSeconds + loadFloor.wallSeconds
const floorCpu = ({ fetchFloor, loadFloor }: Measured) => fetchFloor.cpuSeconds + loadFloor.cpuSeconds

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
    of: ({ full }) => since(full.asked.analysis.lastMs, full.endedMs),
  },
]

const full: readonly Figure[] = [
  { key: 'full_wall_seconds', label: 'full sync: wall, s', digits: 2, of: ({ full }) => wall(full) },
  ...phases,
  { key: 'full_cpu_seconds', label: 'full sync: CPU, s', digits: 2, of: ({ full }) => cpu(full) },
  {
    key: 'notices_per_second',
    label: 'full sync: notices/s',
    digits: 0,
    of: ({ full }) => full.report.loaded / wall(full),
  },
  {
    key: 'megabytes_per_second',
    label: 'full sync: MB/s',
    digits: 1,
    of: ({ full }) => megabytes(full.report.bytes_fetched) / wall(full),
  },
  {
    key: 'requests_per_second',
    label: 'full sync: requests/s, the whole run',
    digits: 0,
    of: ({ full }) => full.report.requests / wall(full),
  },
  {
    key: 'fetch_requests_per_second',
    label: 'full sync: requests/s, while fetching',
    digits: 0,
    of: ({ full: { asked } }) =>
      asked.analysis.requests / since(asked.analysis.firstMs, asked.analysis.lastMs),
  },
  {
    key: 'full_peak_rss_megabytes',
    label: 'full sync: peak RSS, MB',
    digits: 0,
    of: ({ full }) => megabytes(full.cost.peakRssBytes),
  },
  {
    key: 'loop_delay_p50_ms',
    label: 'full sync: event-loop delay p50, ms',
    digits: 1,
    of: ({ full }) => full.cost.loopDelayMs.p50,
  },
  {
    key: 'loop_delay_p99_ms',
    label: 'full sync: event-loop delay p99, ms',
    digits: 1,
    of: ({ full }) => full.cost.loopDelayMs.p99,
  },
  {
    key: 'loop_delay_max_ms',
    label: 'full sync: event-loop delay max, ms',
    digits: 1,
    of: ({ full }) => full.cost.loopDelayMs.max,
  },
]

const floors: readonly Figure[] = [
  {
    key: 'fetch_floor_seconds',
    label: 'floor, fetch: wall, s',
    digits: 2,
    of: ({ fetchFloor }) => fetchFloor.wallSeconds,
  },
  {
    key: 'fetch_floor_cpu_seconds',
    label: 'floor, fetch: CPU, s',
    digits: 2,
    of: ({ fetchFloor }) => fetchFloor.cpuSeconds,
  },
  { key: 'load_floor_seconds', label: 'floor, load: wall, s', digits: 2, of: m => m.loadFloor.wallSeconds },
  ...(['read', 'insert', 'checkpoint', 'parquet'] as const).map(phase => ({
    key: `load_floor_${phase}_seconds`,
    label: `  ${phase}, s`,
    digits: 2,
    of: (m: Measured) => m.loadFloor.phases[phase],
  })),
  { key: 'load_floor_cpu_seconds', label: 'floor, load: CPU, s', digits: 2, of: m => m.loadFloor.cpuSeconds },
  {
    key: 'load_floor_threads',
    label: 'floor, load: DuckDB threads',
    digits: 0,
    of: m => m.loadFloor.threads,
  },
  {
    key: 'load_floor_peak_rss_megabytes',
    label: 'floor, load: peak RSS, MB',
    digits: 0,
    of: m => megabytes(m.loadFloor.peakRssBytes),
  },
  {
    key: 'load_floor_all_threads_seconds',
    label: 'floor, load with every core: wall, s',
    digits: 2,
    of: m => m.loadFloorAllThreads?.wallSeconds ?? null,
  },
  { key: 'wall_ratio', label: 'wall / (fetch + load)', digits: 2, of: m => wall(m.full) / floorWall(m) },
  { key: 'cpu_ratio', label: 'CPU / (fetch + load)', digits: 2, of: m => cpu(m.full) / floorCpu(m) },
]

function incremental(name: 'unchanged' | 'changed', label: string): Figure[] {
  const figure = (key: string, what: string, digits: number, of: (run: SyncRun) => number): Figure => ({
    key: `${name}_${key}`,
    label: `${label}: ${what}`,
    digits,
    of: measured => of(measured[name]),
  })
  return [
    figure('wall_seconds', 'wall, s', 2, wall),
    figure('cpu_seconds', 'CPU, s', 2, cpu),
    figure('list_requests', 'list requests', 0, ({ asked }) => asked.list.requests),
    figure('analysis_requests', 'analysis requests', 0, ({ asked }) => asked.analysis.requests),
    figure('snapshots', 'new snapshots', 0, ({ snapshotsWritten }) => snapshotsWritten),
    figure('peak_rss_megabytes', 'peak RSS, MB', 0, ({ cost }) => megabytes(cost.peakRssBytes)),
  ]
}

/** All figures, in the order they are printed. */
export const FIGURES: readonly Figure[] = [
  ...full,
  ...floors,
  ...incremental('unchanged', 'nothing changed'),
  ...incremental('changed', '0.5 % changed'),
]

/** The median of each figure over the runs. */
export function medians(runs: readonly Measured[]): Figures {
  return Object.fromEntries(
    FIGURES.map(({ key, of }) => {
      const values = runs.map(of).filter(value => value !== null)
      return [key, values.length > 0 ? median(values) : null]
    }),
  )
}

/** Expects at least one value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] as number
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2
}
