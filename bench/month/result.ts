import { renderTable } from '#src/cli/table.ts'
import type { Verdict } from '../bars.ts'
import { type Figures, median } from '../figures.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import { FIGURES } from './figures.ts'
import { DAY_HOURS, type Measured } from './measure.ts'

/** Maximum number of complaints printed; more would only repeat these. */
const COMPLAINTS_SHOWN = 10

/** Results of the benchmark of a month. */
export type MonthBench = {
  readonly machine: Machine
  readonly settings: { readonly notices: number; readonly hours: number; readonly seed: string }
  readonly measured: Measured
  readonly figures: Figures
  readonly bars: readonly Verdict[]
}

/** The object that `--json` prints: the figures by key, and all measurements. */
export function toJson({ machine, settings, measured, figures, bars }: MonthBench): object {
  return {
    machine,
    settings,
    figures: Object.fromEntries(FIGURES.map(({ key, digits }) => [key, shown(figures, key, digits + 1)])),
    ...measured,
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

/** The same as text: one line per day, then all figures, then every bar. */
export function describeMonth({ machine, settings, measured, figures, bars }: MonthBench): string {
  const { notices, hours, seed } = settings
  const rows = FIGURES.map(({ key, label, digits }) => ({
    figure: label,
    value: shown(figures, key, digits) ?? '-',
  }))
  const all = [measured.first, ...measured.hours, measured.full].flatMap(({ complaints }) => complaints)
  return [
    `${describeMachine(machine)}; ${notices.toLocaleString('en-US')} notices, ${hours} hours, seed ${seed}; all runs in one process`,
    renderTable(Object.keys(dayRows(measured)[0] ?? {}), dayRows(measured)),
    renderTable(['figure', 'value'], rows),
    renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)),
    ...all.slice(0, COMPLAINTS_SHOWN).map(complaint => `${complaint}\n`),
  ].join('\n')
}

/** Medians of a day's runs, and the state at its end; sizes in MB. */
function dayRows({ hours, days }: Measured) {
  return days.map((day, index) => {
    const runs = hours.slice(index * DAY_HOURS, day.hour)
    const middle = (of: (run: Measured['hours'][number]) => number) => median(runs.map(of))
    const megabytes = (bytes: number, digits = 0) => round(bytes / 1e6, digits)
    return {
      day: index + 1,
      RSS: megabytes(middle(({ held }) => held.rssBytes)),
      'in a run': megabytes(middle(({ held }) => held.peakRssBytes)),
      heap: megabytes(middle(({ held }) => held.heapBytes)),
      native: megabytes(middle(({ held }) => held.anonymousBytes - held.heapBytes)),
      files: Math.max(...runs.map(({ held }) => held.files)),
      's a run': round(
        middle(({ wallSeconds }) => wallSeconds),
        2,
      ),
      segments: day.segments,
      log: megabytes(day.rawBytes, 1),
      warehouse: megabytes(day.warehouseBytes, 1),
      free: megabytes(day.warehouseFreeBytes, 1),
      snapshots: day.snapshots,
      'all of them': megabytes(day.snapshotBytes, 1),
      latest: megabytes(day.latestBytes, 1),
    }
  })
}

function shown(figures: Figures, key: string, digits: number): number | null {
  const value = figures[key] ?? null
  return value === null ? null : round(value, digits)
}
