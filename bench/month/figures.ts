import { asRow, type Bar, type Figure, figure, median, megabytes, most, sum } from '../frame/figures.ts'
import { DAY_HOURS, type Day, type Hour, type Measured } from './measure.ts'

/** With fewer hours, the last day would overlap the first. */
const COMPARED_FROM_HOURS = 2 * DAY_HOURS
const DAYS_A_YEAR = 365

type Middle = (values: readonly number[]) => number
const highest: Middle = values => Math.max(...values)
const lowest: Middle = values => Math.min(...values)

/** All figures, in the order they are printed. */
export function figuresOf(measured: Measured): Figure[] {
  return [
    ...reports(measured),
    ...memory(measured),
    ...runTimes(measured),
    ...disk(measured),
    ...rebuilds(measured),
    ...dayRows(measured),
  ]
}

function reports({ first, hours, full, ...found }: Measured): Figure[] {
  const all = [first, ...hours, full]
  const count = (of: (hour: Hour) => boolean, runs = all) => runs.filter(of).length
  const { differs } = found.rebuilt
  return [
    figure('runs', 'runs', 0, hours.length),
    figure(
      'bad_hours',
      '  with API faults',
      0,
      count(h => h.networkFaults !== 'fair', [...hours]),
    ),
    figure(
      'not_ok',
      '  that did not end ok',
      0,
      count(h => h.status !== 'ok', [...hours]),
    ),
    figure('changes', 'changes in the world', 0, sum(hours.map(h => h.changes))),
    figure('notices', 'notices at the end', 0, found.notices),
    figure('loaded', 'analyses fetched', 0, sum(hours.map(h => h.loaded))),
    figure(
      'unconserved',
      'reports whose outcomes do not add up',
      0,
      count(h => !h.conserved),
      most(0),
    ),
    figure(
      'complaints',
      'reports with unexpected values',
      0,
      count(h => h.complaints.length > 0),
      most(0),
    ),
    figure('wrong_notices', 'notices that differ from the world', 0, found.wrongNotices, most(0)),
    figure('runs_amiss', 'runs without their row in sync_runs', 0, found.runsAmiss, most(0)),
    figure('tables_differ', 'tables that differ after a rebuild', 0, differs.length, most(0)),
  ]
}

/**
 * The runs of the first day, and of the last 24 hours. Garbage makes the heap grow and shrink by 100 MB between
 * two runs, so only all runs of a day show what a process holds. The first is null if the two days overlap.
 */
function comparedDays({ hours }: Measured): { first: readonly Hour[] | null; last: readonly Hour[] } {
  const first = hours.length < COMPARED_FROM_HOURS ? null : hours.slice(0, DAY_HOURS)
  return { first, last: hours.slice(-DAY_HOURS) }
}

/** Returns what a process holds between two runs: on the first day, on the last one, and the ratio. */
function rssOf(measured: Measured, key: string, label: string, middle: Middle, bar: Bar | null): Figure[] {
  const of = (runs: readonly Hour[]) => middle(runs.map(({ rssBytes }) => megabytes(rssBytes)))
  const days = comparedDays(measured)
  const [first, last] = [days.first && of(days.first), of(days.last)]
  const name = `RSS between runs, ${label}`
  return [
    figure(`${key}_after_day_megabytes`, `${name}: first day, MB`, 1, first),
    figure(`${key}_end_megabytes`, `${name}: last day, MB`, 1, last),
    figure(`${key}_ratio`, `${name}: last day / first day`, 3, first && last / first, bar),
  ]
}

function memory(measured: Measured): Figure[] {
  const { hours } = measured
  const filesIn = (runs: readonly Hour[]) => highest(runs.map(({ files }) => files))
  const later = hours.slice(DAY_HOURS)
  const first = filesIn(hours.slice(0, DAY_HOURS))
  const more = later.length === 0 ? null : filesIn(later) - first
  return [
    ...rssOf(measured, 'rss', 'median', median, most(1.1)),
    // A leak raises this one, whenever garbage is collected.
    ...rssOf(measured, 'rss_lowest', 'lowest', lowest, most(1.1)),
    ...rssOf(measured, 'rss_highest', 'highest', highest, null),
    figure('files', 'open files: highest in the first day', 0, first),
    figure(
      'files_more',
      'open files: highest after the first day, above the highest in it',
      0,
      more,
      most(0),
    ),
    figure('listeners', 'listeners left on the signal', 0, hours.at(-1)?.listeners ?? 0, most(0)),
  ]
}

function runTimes({ first, hours, full }: Measured): Figure[] {
  const middle = (of: (hour: Hour) => number) => median(hours.map(of))
  return [
    figure('first_seconds', 'the first sync: wall, s', 2, first.wallSeconds),
    figure(
      'run_seconds',
      'a run: wall, median, s',
      2,
      middle(hour => hour.wallSeconds),
    ),
    figure(
      'run_cpu_seconds',
      '  CPU, median, s',
      2,
      middle(hour => hour.cpuSeconds),
    ),
    figure('full_seconds', 'full run at the end: wall, s', 2, full.wallSeconds),
  ]
}

function endsOf({ days }: Measured): { first: Day; last: Day } {
  return { first: days[0] as Day, last: days.at(-1) as Day }
}

/** Growth per day since the end of the first day; null if there is only one day. */
function daily(measured: Measured, of: (day: Day) => number): number | null {
  const { first, last } = endsOf(measured)
  return last.hour > first.hour ? ((of(last) - of(first)) / (last.hour - first.hour)) * DAY_HOURS : null
}

function disk(measured: Measured): Figure[] {
  const { first, last } = endsOf(measured)
  const size = (key: string, label: string, bytes: number) =>
    figure(`${key}_megabytes`, label, 2, megabytes(bytes))
  const perDay = daily(measured, day => megabytes(day.rawBytes))
  return [
    figure('segments', 'raw log: segments', 0, last.segments),
    figure(
      'segments_a_day',
      '  a day',
      1,
      daily(measured, day => day.segments),
    ),
    size('raw', 'raw log: MB', last.rawBytes),
    figure('raw_megabytes_a_day', '  a day', 3, perDay),
    size('warehouse_after_day', 'warehouse: MB after the first day', first.warehouseBytes),
    size('warehouse', '  at the end', last.warehouseBytes),
    size('warehouse_free', '  of that, free', last.warehouseFreeBytes),
    size('warehouse_rebuilt', '  after a rebuild', measured.rebuilt.warehouseBytes),
    figure('snapshots', 'snapshots', 0, last.snapshots),
    size('snapshots', '  all, MB', last.snapshotBytes),
    size('snapshots_after_day', '  all, after a day, MB', first.snapshotBytes),
    size('latest', '  the latest, MB', last.latestBytes),
    figure('sync_runs', 'rows of sync_runs', 0, last.runs),
  ]
}

/**
 * Times of half of the hourly runs' segments; the segments of the first sync and the full run are larger. Hundreds are
 * applied together, so fewer would be the time of one group.
 */
function halves(measured: Measured): { first: number; last: number } {
  const { rebuilt, first } = measured
  const segments = rebuilt.segmentMs.slice(first.segments, endsOf(measured).last.segments)
  const half = Math.max(1, Math.round(segments.length / 2))
  const mean = (values: readonly number[]) => sum(values) / values.length
  return { first: mean(segments.slice(0, half)), last: mean(segments.slice(-half)) }
}

function rebuilds(measured: Measured): Figure[] {
  const { openSeconds, rebuildSeconds } = measured.rebuilt
  const half = halves(measured)
  const perYear = (aDay: number | null) => aDay && aDay * DAYS_A_YEAR
  const segments = perYear(daily(measured, day => day.segments))
  const raw = perYear(daily(measured, day => megabytes(day.rawBytes)))
  const year = segments && (segments * half.last) / 1000
  return [
    figure('open_warehouse_seconds', 'opening the warehouse, s', 3, openSeconds),
    figure('rebuild_seconds', 'rebuild, s', 2, rebuildSeconds),
    figure('segment_first_ms', '  a segment of an hourly run, in the first half, ms', 1, half.first),
    figure('segment_last_ms', '  a segment of an hourly run, in the last half, ms', 1, half.last),
    figure('year_segments', 'a year of such days: segments', 0, segments),
    figure('year_raw_megabytes', '  raw log, MB', 0, raw),
    figure(
      'year_rebuild_seconds',
      'a year of such days: rebuild at the time of the last half, s',
      0,
      year,
      most(120),
    ),
  ]
}

/** Medians of a day's runs, and the state at its end; sizes in MB. */
function dayRows({ hours, days }: Measured): Figure[] {
  return days.flatMap((day, index) => {
    const runs = hours.slice(index * DAY_HOURS, day.hour)
    const size = (label: string, bytes: number) => figure(label, label, 1, megabytes(bytes))
    return asRow('day', String(index + 1), [
      size('RSS', median(runs.map(({ rssBytes }) => rssBytes))),
      figure('files', 'files', 0, highest(runs.map(({ files }) => files))),
      figure('s a run', 's a run', 2, median(runs.map(({ wallSeconds }) => wallSeconds))),
      figure('segments', 'segments', 0, day.segments),
      size('log', day.rawBytes),
      size('warehouse', day.warehouseBytes),
      size('free', day.warehouseFreeBytes),
      figure('snapshots', 'snapshots', 0, day.snapshots),
      size('all of them', day.snapshotBytes),
      size('latest', day.latestBytes),
    ])
  })
}
