import { type Figure, median } from '../figures.ts'
import type { Crowd } from './crowd.ts'
import type { Idle } from './idle.ts'
import type { Many } from './many.ts'
import { MOMENTS, type Stop } from './stop.ts'
import type { Health, Memory } from './watch.ts'

/** All measurements of one run of the benchmark; null if skipped. */
export type Measured = {
  readonly crowd: Crowd | null
  readonly idle: Idle | null
  readonly many: Many | null
  /** By key of the moment. */
  readonly stops: Readonly<Record<string, Stop>> | null
}

/** Over the runs of the benchmark; the worst is the highest, because less is always better. */
export type Spread = { readonly median: number; readonly worst: number }
export type Figures = Readonly<Record<string, Spread | null>>

const megabytes = (bytes: number) => bytes / 1e6
const worst = (values: readonly number[]) => Math.max(...values)

function crowdFigure(
  key: string,
  label: string,
  digits: number,
  of: (crowd: Crowd) => number,
): Figure<Measured> {
  return { key, label, digits, of: ({ crowd }) => crowd && of(crowd) }
}

const healthFigure = (key: 'p50' | 'p99' | 'max') =>
  crowdFigure(`health_${key}_ms`, `  /healthz of either worker: ${key}, ms`, 1, ({ health }) =>
    worst(health.map((one: Health) => one[key])),
  )

const memoryFigure = (key: 'peakBytes' | 'daemonPeakBytes', name: string, label: string) =>
  crowdFigure(`${name}_megabytes`, `  peak RSS of either worker: ${label}, MB`, 0, ({ memory }) =>
    worst(memory.map((one: Memory) => megabytes(one[key]))),
  )

const crowd = [
  crowdFigure('first_seconds', 'all companies for the first time: wall, s', 1, c => c.firstSeconds),
  crowdFigure('company_median_seconds', '  a company: median, s', 2, c => median(c.durations)),
  crowdFigure('company_max_seconds', '  a company: max, s', 2, c => worst(c.durations)),
  crowdFigure('again_seconds', 'requested again at both workers: wall, s', 1, c => c.againSeconds),
  crowdFigure('runs', 'in both: runs', 0, c => c.runs),
  crowdFigure('overlaps', '  runs of a company that overlap', 0, c => c.overlaps),
  crowdFigure('held', '  runs that found their company held', 0, c => c.held),
  crowdFigure('errors', "  errors in the workers' logs", 0, c => c.errors.length),
  ...(['p50', 'p99', 'max'] as const).map(healthFigure),
  crowdFigure('asker_p99_ms', '  timer delay of the benchmark itself: p99, ms', 1, c => c.askerDelayP99Ms),
  crowdFigure('health_failed', '  /healthz: unanswered or not 200', 0, c =>
    c.health.reduce((sum, h) => sum + h.failed, 0),
  ),
  memoryFigure('peakBytes', 'worker_peak_rss', 'with its runs'),
  memoryFigure('daemonPeakBytes', 'daemon_peak_rss', 'the daemon alone'),
  crowdFigure('quiet_stop_seconds', 'SIGTERM to exit, no runs, s', 2, c => worst(c.stopSeconds)),
]

const stops: Figure<Measured>[] = MOMENTS.flatMap(({ key, label }) => [
  {
    key: `stop_${key}_seconds`,
    label: `SIGTERM to exit, backfill ${label}, s`,
    digits: 2,
    of: ({ stops }) => stops?.[key]?.seconds ?? null,
  },
  {
    key: `stop_${key}_committed`,
    label: '  committed',
    digits: 0,
    of: ({ stops }) => stops?.[key]?.committed ?? null,
  },
])

function stopSum(key: 'repeated' | 'leftBehind', name: string, label: string): Figure<Measured> {
  const of = ({ stops }: Measured) => stops && Object.values(stops).reduce((sum, stop) => sum + stop[key], 0)
  return { key: name, label, digits: 0, of }
}

const idle: Figure<Measured>[] = [
  {
    key: 'idle_rss_megabytes',
    label: 'idle: RSS, MB',
    digits: 1,
    of: ({ idle }) => idle && megabytes(idle.rssBytes),
  },
  {
    key: 'idle_after_run_rss_megabytes',
    label: 'idle after a run: RSS, MB',
    digits: 1,
    of: ({ idle }) => idle && megabytes(idle.rssAfterRunBytes),
  },
  {
    key: 'idle_cpu_percent',
    label: 'idle: CPU, % of a core',
    digits: 2,
    of: ({ idle }) => idle && idle.cpuShare * 100,
  },
]

function manyFigure(
  key: string,
  label: string,
  digits: number,
  of: (many: Many) => number,
): Figure<Measured> {
  return { key: `many_${key}`, label, digits, of: ({ many }) => many && of(many) }
}

const many = [
  manyFigure('seconds', 'many companies, three failing: all others have run, s', 1, m => m.seconds),
  manyFigure('median_seconds', '  half of them, s', 1, m => median(m.waits)),
  manyFigure(
    'unnamed',
    '  of the three, not reported by status, /metrics and one alert',
    0,
    m => 3 - m.named.length,
  ),
  manyFigure('others_alerted', '  others with an alert', 0, m => m.others),
  manyFigure('metrics_seconds', '  /metrics, s', 2, m => m.metricsSeconds),
  manyFigure('health_p99_ms', '  /healthz: p99, ms', 1, m => m.health.p99),
  manyFigure('daemon_peak_rss_megabytes', '  peak RSS of the daemon alone, MB', 0, m =>
    megabytes(m.memory.daemonPeakBytes),
  ),
]

/** All figures, in the order they are printed. */
export const FIGURES: readonly Figure<Measured>[] = [
  ...crowd,
  ...stops,
  stopSum('leftBehind', 'stop_left_behind', 'stopped backfills: processes left behind'),
  stopSum('repeated', 'stop_repeated', 'stopped backfills: committed analyses requested again'),
  ...idle,
  ...many,
]

export function spread(runs: readonly Measured[]): Figures {
  return Object.fromEntries(
    FIGURES.map(({ key, of }) => {
      const values = runs.map(of).filter(value => value !== null)
      return [key, values.length > 0 ? { median: median(values), worst: worst(values) } : null]
    }),
  )
}
