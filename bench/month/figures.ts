import { type Figure, type Figures, median } from '../figures.ts'
import { DAY_HOURS, type Hour, type Measured } from './measure.ts'

/** With fewer hours, the last day would overlap the first. */
const COMPARED_FROM_HOURS = 2 * DAY_HOURS
const DAYS_A_YEAR = 365

const megabytes = (bytes: number) => bytes / 1e6
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
const mean = (values: readonly number[]) => sum(values) / values.length
const worst = (values: readonly number[]) => Math.max(...values)
const lowest = (values: readonly number[]) => Math.min(...values)
const rss = ({ held }: Hour) => megabytes(held.rssBytes)

/**
 * The runs of the first day, and of the last 24 hours. Garbage makes the heap grow and shrink by 100 MB between
 * two runs, so only all runs of a day show what a process holds. Null if the two days overlap.
 */
const firstDayRuns = ({ hours }: Measured) =>
  hours.length < COMPARED_FROM_HOURS ? null : hours.slice(0, DAY_HOURS)
const lastDayRuns = ({ hours }: Measured) => hours.slice(-DAY_HOURS)

function afterDayAndEnd(
  key: string,
  label: string,
  digits: number,
  of: (hour: Hour) => number,
  middle: (values: readonly number[]) => number = median,
): Figure<Measured>[] {
  const figure = (runs: readonly Hour[] | null) => runs && middle(runs.map(of))
  return [
    { key: `${key}_after_day`, label: `${label}: first day`, digits, of: m => figure(firstDayRuns(m)) },
    { key: `${key}_end`, label: `${label}: last day`, digits, of: m => figure(lastDayRuns(m)) },
  ]
}

/** Ratio of the last day to the first, of the memory that a process holds between two runs. */
function ratio(measured: Measured, middle: (values: readonly number[]) => number): number | null {
  const first = firstDayRuns(measured)
  const rss = (runs: readonly Hour[]) => middle(runs.map(({ held }) => held.rssBytes))
  return first && rss(lastDayRuns(measured)) / rss(first)
}

const lastDay = ({ days }: Measured) => days.at(-1) as Measured['days'][number]
const firstDay = ({ days }: Measured) => days[0] as Measured['days'][number]

/** Growth per day since the end of the first day; null if there is only one day. */
function daily(measured: Measured, of: (day: Measured['days'][number]) => number): number | null {
  const [first, last] = [firstDay(measured), lastDay(measured)]
  return last.hour > first.hour ? ((of(last) - of(first)) / (last.hour - first.hour)) * DAY_HOURS : null
}

/**
 * Times of half of the hourly runs' segments; the segments of the first sync and the full run are larger. Hundreds are
 * applied together, so fewer would be the time of one group.
 */
function segmentsOf(measured: Measured, which: 'first' | 'last'): readonly number[] {
  const segments = measured.rebuilt.segmentMs.slice(measured.first.segments, lastDay(measured).segments)
  const half = Math.max(1, Math.round(segments.length / 2))
  return which === 'first' ? segments.slice(0, half) : segments.slice(-half)
}

/** All figures, in the order they are printed. */
export const FIGURES: readonly Figure<Measured>[] = [
  { key: 'runs', label: 'runs', digits: 0, of: ({ hours }) => hours.length },
  {
    key: 'bad_hours',
    label: '  with API faults',
    digits: 0,
    of: ({ hours }) => hours.filter(({ networkFaults }) => networkFaults !== 'fair').length,
  },
  {
    key: 'not_ok',
    label: '  that did not end ok',
    digits: 0,
    of: ({ hours }) => hours.filter(({ status }) => status !== 'ok').length,
  },
  { key: 'changes', label: 'changes in the world', digits: 0, of: m => m.changes },
  { key: 'notices', label: 'notices at the end', digits: 0, of: m => m.notices },
  { key: 'loaded', label: 'analyses fetched', digits: 0, of: ({ hours }) => sum(hours.map(h => h.loaded)) },
  {
    key: 'unconserved',
    label: 'reports whose outcomes do not add up',
    digits: 0,
    of: ({ first, hours, full }) => [first, ...hours, full].filter(({ conserved }) => !conserved).length,
  },
  {
    key: 'complaints',
    label: 'reports with unexpected values',
    digits: 0,
    of: ({ first, hours, full }) => [first, ...hours, full].filter(h => h.complaints.length > 0).length,
  },
  { key: 'wrong_notices', label: 'notices that differ from the world', digits: 0, of: m => m.wrongNotices },
  { key: 'runs_amiss', label: 'runs without their row in sync_runs', digits: 0, of: m => m.runsAmiss },
  {
    key: 'tables_differ',
    label: 'tables that differ after a rebuild',
    digits: 0,
    of: ({ rebuilt }) => rebuilt.differs.length,
  },
  ...afterDayAndEnd('rss_megabytes', 'RSS between runs, median, MB', 1, rss),
  { key: 'rss_ratio', label: '  last day / first day', digits: 3, of: m => ratio(m, median) },
  ...afterDayAndEnd('rss_lowest_megabytes', 'RSS between runs, lowest, MB', 1, rss, lowest),
  { key: 'rss_lowest_ratio', label: '  last day / first day', digits: 3, of: m => ratio(m, lowest) },
  ...afterDayAndEnd('rss_highest_megabytes', 'RSS between runs, highest, MB', 1, rss, worst),
  ...afterDayAndEnd('peak_rss_megabytes', 'peak RSS of a run, median, MB', 1, ({ held }) =>
    megabytes(held.peakRssBytes),
  ),
  ...afterDayAndEnd('heap_megabytes', 'heap, MB', 1, ({ held }) => megabytes(held.heapBytes)),
  ...afterDayAndEnd('heap_used_megabytes', 'heap in use, MB', 1, ({ held }) => megabytes(held.heapUsedBytes)),
  ...afterDayAndEnd('native_megabytes', 'native memory (DuckDB, buffers), MB', 1, ({ held }) =>
    megabytes(held.anonymousBytes - held.heapBytes),
  ),
  ...afterDayAndEnd('files', 'open files', 0, ({ held }) => held.files),
  {
    key: 'files_more',
    label: '  highest after the first day, above the highest in it',
    digits: 0,
    of: ({ hours }) => {
      const most = (some: readonly Hour[]) => worst(some.map(({ held }) => held.files))
      return hours.length > DAY_HOURS ? most(hours.slice(DAY_HOURS)) - most(hours.slice(0, DAY_HOURS)) : null
    },
  },
  ...afterDayAndEnd('threads', 'threads', 0, ({ held }) => held.threads),
  {
    key: 'listeners',
    label: 'listeners left on the signal',
    digits: 0,
    of: ({ hours }) => hours.at(-1)?.listeners ?? 0,
  },
  { key: 'first_seconds', label: 'the first sync: wall, s', digits: 2, of: m => m.first.wallSeconds },
  ...afterDayAndEnd('run_seconds', 'a run: wall, s', 2, h => h.wallSeconds),
  ...afterDayAndEnd('run_lowest_seconds', '  lowest', 2, h => h.wallSeconds, lowest),
  ...afterDayAndEnd('run_cpu_seconds', '  CPU, s', 2, h => h.cpuSeconds),
  ...afterDayAndEnd('open_seconds', '  to its first request, s', 3, h => h.openSeconds),
  ...afterDayAndEnd('publish_seconds', '  publish, s', 2, h => h.publishSeconds),
  { key: 'full_seconds', label: 'full run at the end: wall, s', digits: 2, of: m => m.full.wallSeconds },
  { key: 'segments', label: 'raw log: segments', digits: 0, of: m => lastDay(m).segments },
  { key: 'segments_a_day', label: '  a day', digits: 1, of: m => daily(m, day => day.segments) },
  { key: 'raw_megabytes', label: 'raw log: MB', digits: 2, of: m => megabytes(lastDay(m).rawBytes) },
  {
    key: 'raw_megabytes_a_day',
    label: '  a day',
    digits: 3,
    of: m => daily(m, day => megabytes(day.rawBytes)),
  },
  {
    key: 'warehouse_after_day_megabytes',
    label: 'warehouse: MB after the first day',
    digits: 2,
    of: m => megabytes(firstDay(m).warehouseBytes),
  },
  {
    key: 'warehouse_megabytes',
    label: '  at the end',
    digits: 2,
    of: m => megabytes(lastDay(m).warehouseBytes),
  },
  {
    key: 'warehouse_free_megabytes',
    label: '  of that, free',
    digits: 2,
    of: m => megabytes(lastDay(m).warehouseFreeBytes),
  },
  {
    key: 'warehouse_rebuilt_megabytes',
    label: '  after a rebuild',
    digits: 2,
    of: m => megabytes(m.rebuilt.warehouseBytes),
  },
  { key: 'snapshots', label: 'snapshots', digits: 0, of: m => lastDay(m).snapshots },
  { key: 'snapshots_megabytes', label: '  all, MB', digits: 1, of: m => megabytes(lastDay(m).snapshotBytes) },
  {
    key: 'snapshots_after_day_megabytes',
    label: '  all, after a day, MB',
    digits: 1,
    of: m => megabytes(firstDay(m).snapshotBytes),
  },
  {
    key: 'latest_megabytes',
    label: '  the latest, MB',
    digits: 1,
    of: m => megabytes(lastDay(m).latestBytes),
  },
  { key: 'sync_runs', label: 'rows of sync_runs', digits: 0, of: m => lastDay(m).rows.sync_runs ?? 0 },
  {
    key: 'open_warehouse_seconds',
    label: 'opening the warehouse, s',
    digits: 3,
    of: m => m.rebuilt.openSeconds,
  },
  { key: 'rebuild_seconds', label: 'rebuild, s', digits: 2, of: m => m.rebuilt.rebuildSeconds },
  {
    key: 'segment_first_ms',
    label: '  a segment of an hourly run, in the first half, ms',
    digits: 1,
    of: m => mean(segmentsOf(m, 'first')),
  },
  {
    key: 'segment_last_ms',
    label: '  a segment of an hourly run, in the last half, ms',
    digits: 1,
    of: m => mean(segmentsOf(m, 'last')),
  },
  {
    key: 'year_segments',
    label: 'a year of such days: segments',
    digits: 0,
    of: m => perYear(daily(m, day => day.segments)),
  },
  {
    key: 'year_raw_megabytes',
    label: '  raw log, MB',
    digits: 0,
    of: m => perYear(daily(m, day => megabytes(day.rawBytes))),
  },
  {
    key: 'year_rebuild_seconds',
    label: '  rebuild, s, at the time of the last half',
    digits: 0,
    of(m) {
      const segments = perYear(daily(m, day => day.segments))
      return segments === null ? null : (segments * mean(segmentsOf(m, 'last'))) / 1000
    },
  },
]

function perYear(aDay: number | null): number | null {
  return aDay === null ? null : aDay * DAYS_A_YEAR
}

export function figuresOf(measured: Measured): Figures {
  return Object.fromEntries(FIGURES.map(({ key, of }) => [key, of(measured)]))
}
