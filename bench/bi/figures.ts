import { VIEWS } from '#schema/marts/marts.ts'
import { type Figure, type Figures, median } from '../figures.ts'
import type { MartTimes } from './mart.ts'
import type { Measured } from './measure.ts'

const megabytes = (bytes: number) => bytes / 1e6

/** The figures of a mart, one per column; the same for all marts. */
export const MART_FIGURES = [
  { key: 'rows', label: 'rows', digits: 0, of: (times: MartTimes) => times.rows },
  { key: 'first_ms', label: 'first, ms', digits: 1, of: (times: MartTimes) => times.firstMs },
  { key: 'warm_ms', label: 'warm, ms', digits: 1, of: (times: MartTimes) => times.warmMs },
] as const

type MartKey = (typeof MART_FIGURES)[number]['key']

/** The key of a mart's figure. */
export const martKey = (mart: string, key: MartKey) => `${mart}_${key}`

const marts: readonly Figure<Measured>[] = VIEWS.flatMap(({ name }) =>
  MART_FIGURES.map(({ key, label, digits, of }) => ({
    key: martKey(name, key),
    label: `${name}: ${label}`,
    digits,
    of: ({ marts }: Measured) => of(marts[name] as MartTimes),
  })),
)

function share(key: string, label: string, bytes: (changed: Measured['changed']) => number) {
  const of = ({ changed }: Measured) => (bytes(changed) / changed.snapshotBytes) * 100
  return { key: `${key}_percent`, label, digits: 1, of }
}

/** All other figures, in the order they are printed. */
export const OTHER_FIGURES: readonly Figure<Measured>[] = [
  {
    key: 'open_ms',
    label: 'opening the catalog (median of the marts), ms',
    digits: 1,
    of: ({ marts }) => median(Object.values(marts).map(({ openMs }) => openMs)),
  },
  {
    key: 'mart_peak_rss_megabytes',
    label: 'a process that reads a mart: highest peak RSS, MB',
    digits: 0,
    of: ({ marts }) => megabytes(Math.max(...Object.values(marts).map(({ peakRssBytes }) => peakRssBytes))),
  },
  { key: 'report_wall_seconds', label: 'report: wall, s', digits: 2, of: m => m.report.wallSeconds },
  { key: 'report_megabytes', label: 'report: MB', digits: 3, of: m => megabytes(m.report.bytes) },
  { key: 'full_wall_seconds', label: 'full sync: wall, s', digits: 2, of: m => m.fullSeconds },
  {
    key: 'changed_wall_seconds',
    label: '0.5 % changed, in the two newest months: wall, s',
    digits: 2,
    of: m => m.changedSeconds,
  },
  { key: 'months', label: '  months with notices', digits: 0, of: m => m.changed.months },
  {
    key: 'newest_notices',
    label: '  notices in the two newest',
    digits: 0,
    of: m => m.changed.newestNotices,
  },
  {
    key: 'newest_percent',
    label: '  notices in the two newest, % of all',
    digits: 1,
    of: ({ changed }) => (changed.newestNotices / changed.notices) * 100,
  },
  { key: 'changes', label: '  notices changed', digits: 0, of: m => m.changed.changes },
  {
    key: 'months_written',
    label: '  months rewritten',
    digits: 0,
    of: m => m.changed.monthsWritten,
  },
  {
    key: 'snapshot_megabytes',
    label: '  the whole new snapshot, MB',
    digits: 2,
    of: m => megabytes(m.changed.snapshotBytes),
  },
  {
    key: 'written_megabytes',
    label: '  written for it, MB',
    digits: 2,
    of: m => megabytes(m.changed.bytes),
  },
  share('written', '  written for it, % of the whole', ({ bytes }) => bytes),
  share('written_months', '    files of single months, %', ({ monthBytes }) => monthBytes),
  share('written_tables', '    files of whole tables, %', ({ wholeTableBytes }) => wholeTableBytes),
  share('written_catalog', '    catalog and manifest, %', ({ catalogBytes }) => catalogBytes),
]

export const FIGURES: readonly Figure<Measured>[] = [...marts, ...OTHER_FIGURES]

/** The median of each figure over the runs; expects at least one run. */
export function medians(runs: readonly Measured[]): Figures {
  return Object.fromEntries(
    FIGURES.map(({ key, of }) => {
      const values = runs.map(of).filter(value => value !== null)
      return [key, values.length > 0 ? median(values) : null]
    }),
  )
}
