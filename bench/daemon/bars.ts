import { type Verdict, verdict } from '../bars.ts'
import type { Figures } from './figures.ts'
import { MOMENTS } from './stop.ts'

/** Limits for the daemon (issue 3), in the worst run. */
const LIMITS: readonly (readonly [key: string, what: string, limit: number])[] = [
  ['overlaps', 'runs of a company that overlap', 0],
  ['errors', "errors in the workers' logs", 0],
  ['health_p99_ms', '/healthz of either worker: p99, ms', 100],
  ['health_failed', '/healthz: unanswered or not 200', 0],
  ['worker_peak_rss_megabytes', 'a worker with its runs: peak RSS, MB', 1500],
  ['stop_left_behind', 'stopped in a backfill: processes left behind', 0],
  ['stop_repeated', 'stopped in a backfill: committed analyses requested again', 0],
  ['idle_rss_megabytes', 'idle: RSS, MB', 150],
  ['idle_after_run_rss_megabytes', 'idle after a run: RSS, MB', 150],
  ['idle_cpu_percent', 'idle: CPU, % of a core', 1],
  ['many_unnamed', 'of three failing companies: not reported everywhere', 0],
  ['many_others_alerted', 'other companies with an alert', 0],
]
const STOP_SECONDS = 10

/** The bars for the figures that were measured. */
export function judgeDaemon(figures: Figures): Verdict[] {
  const stops = MOMENTS.map(
    ({ key, label }) =>
      [`stop_${key}_seconds`, `SIGTERM to exit, backfill ${label}, s`, STOP_SECONDS] as const,
  )
  return [...LIMITS, ...stops].flatMap(([key, what, limit]) => {
    const figure = figures[key]
    return figure ? [verdict(what, figure.worst, 'most', limit)] : []
  })
}
