import { type Verdict, verdict } from '../bars.ts'
import type { Figures } from '../figures.ts'

/** What a month must not exceed. */
const LIMITS: readonly (readonly [key: string, what: string, limit: number])[] = [
  ['rss_ratio', 'RSS between runs, median: last day / first day', 1.1],
  // What a leak raises, whenever garbage is collected.
  ['rss_lowest_ratio', 'RSS between runs, lowest: last day / first day', 1.1],
  ['files_more', 'open files, most since the first day, beyond the most of it', 0],
  ['listeners', 'listeners that runs left on their signal', 0],
  ['unconserved', 'reports that are not conserved', 0],
  ['complaints', 'reports that say something else than they must', 0],
  ['wrong_notices', 'notices that are not as in the world', 0],
  ['runs_amiss', 'runs without their row in sync_runs', 0],
  ['tables_differ', 'tables that a rebuild makes otherwise', 0],
]

/** The bars of what was long enough to be measured. */
export function judgeMonth(figures: Figures): Verdict[] {
  return LIMITS.flatMap(([key, what, limit]) => {
    const value = figures[key] ?? null
    return value === null ? [] : [verdict(what, value, 'most', limit)]
  })
}
