import { type Verdict, verdict } from '../bars.ts'
import type { Figures } from '../figures.ts'

/** Limits for a month. */
const LIMITS: readonly (readonly [key: string, what: string, limit: number])[] = [
  ['rss_ratio', 'RSS between runs, median: last day / first day', 1.1],
  // A leak raises this one, whenever garbage is collected.
  ['rss_lowest_ratio', 'RSS between runs, lowest: last day / first day', 1.1],
  ['files_more', 'open files: highest after the first day, above the highest in it', 0],
  ['listeners', 'listeners that runs left on the signal', 0],
  ['unconserved', 'reports whose outcomes do not add up', 0],
  ['complaints', 'reports with unexpected values', 0],
  ['wrong_notices', 'notices that differ from the world', 0],
  ['runs_amiss', 'runs without their row in sync_runs', 0],
  ['tables_differ', 'tables that differ after a rebuild', 0],
  ['year_rebuild_seconds', 'a year of such days: rebuild, s', 120],
]

/** The bars for figures that a run of this length has. */
export function judgeMonth(figures: Figures): Verdict[] {
  return LIMITS.flatMap(([key, what, limit]) => {
    const value = figures[key] ?? null
    return value === null ? [] : [verdict(what, value, 'most', limit)]
  })
}
