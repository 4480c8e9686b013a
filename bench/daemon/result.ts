import { renderTable } from '#src/cli/table.ts'
import type { Verdict } from '../bars.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import { FIGURES, type Figures, type Measured, spread } from './figures.ts'

/** Results of the daemon benchmark. */
export type DaemonBench = {
  readonly machine: Machine
  readonly settings: { readonly companies: number; readonly notices: number; readonly backfill: number }
  readonly runs: readonly Measured[]
  readonly figures: Figures
  readonly bars: readonly Verdict[]
}

/** The object that `--json` prints: the figures by key, and the measurements of each run. */
export function toJson({ machine, settings, runs, figures, bars }: DaemonBench): object {
  return {
    machine,
    settings,
    figures: rounded(figures),
    runs: runs.map(run => ({ figures: rounded(spread([run]), 'median'), ...run })),
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

/** The same as text. */
export function describeDaemon({ machine, settings, runs, figures, bars }: DaemonBench): string {
  const { companies, notices, backfill } = settings
  const several = runs.length > 1
  const columns = several ? ['median', 'worst'] : ['value']
  const rows = FIGURES.map(({ key, label, digits }) => {
    const figure = figures[key]
    const shown = (value: number | undefined) => (value === undefined ? '-' : round(value, digits))
    const values = several
      ? { median: shown(figure?.median), worst: shown(figure?.worst) }
      : { value: shown(figure?.median) }
    return { figure: label, ...values }
  })
  return [
    `${describeMachine(machine)}; ${companies} companies of ${notices} notices, two workers; a backfill of ${backfill}; ${several ? `${runs.length} runs` : 'one run'}`,
    renderTable(['figure', ...columns], rows),
    bars.length > 0 ? renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)) : '',
  ].join('\n')
}

function rounded(figures: Figures, only?: 'median'): object {
  return Object.fromEntries(
    FIGURES.map(({ key, digits }) => {
      const figure = figures[key]
      if (!figure) return [key, null]
      const median = round(figure.median, digits + 1)
      return [key, only ? median : { median, worst: round(figure.worst, digits + 1) }]
    }),
  )
}
