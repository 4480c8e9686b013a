import { VIEWS } from '#schema/marts/marts.ts'
import { renderTable } from '#src/cli/table.ts'
import type { Verdict } from '../bars.ts'
import type { Figures } from '../figures.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import type { About } from '../world.ts'
import { FIGURES, MART_FIGURES, martKey, medians, OTHER_FIGURES } from './figures.ts'
import type { Measured } from './measure.ts'

/** Results of the benchmark of a snapshot's readers. */
export type BiBench = {
  readonly machine: Machine
  readonly settings: { readonly notices: number; readonly runs: number; readonly seed: string }
  readonly about: About
  readonly runs: readonly Measured[]
  /** Medians over the runs. */
  readonly figures: Figures
  readonly bars: readonly Verdict[]
}

/** The object that `--json` prints: the figures by key, and the measurements of each run. */
export function toJson({ machine, settings, about, runs, figures, bars }: BiBench): object {
  return {
    machine,
    settings,
    about,
    figures: rounded(figures),
    runs: runs.map(run => ({ figures: rounded(medians([run])), ...run })),
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

/** The same as text: one line per mart, then the other figures, then every bar. */
export function describeBi({ machine, settings, figures, bars }: BiBench): string {
  const shown = (key: string, digits: number) => {
    const value = figures[key] ?? null
    return value === null ? '-' : round(value, digits)
  }
  const marts = VIEWS.map(({ name }) => ({
    figure: name,
    value: '',
    ...Object.fromEntries(
      MART_FIGURES.map(({ key, label, digits }) => [label, shown(martKey(name, key), digits)]),
    ),
  }))
  const empty = Object.fromEntries(MART_FIGURES.map(({ label }) => [label, '']))
  const others = OTHER_FIGURES.map(({ key, label, digits }) => ({
    figure: label,
    value: shown(key, digits),
    ...empty,
  }))
  const columns = ['figure', ...MART_FIGURES.map(({ label }) => label), 'value']
  const { notices, runs } = settings
  return [
    `${describeMachine(machine)}; ${notices.toLocaleString('en-US')} notices, ${runs === 1 ? 'one run' : `medians of ${runs} runs`}; each mart in its own process, all columns of all rows hashed by DuckDB`,
    renderTable(columns, [...marts, ...others]),
    bars.length > 0 ? renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)) : '',
  ].join('\n')
}

function rounded(figures: Figures): Figures {
  return Object.fromEntries(
    FIGURES.map(({ key, digits }) => {
      const value = figures[key] ?? null
      return [key, value === null ? null : round(value, digits + 1)]
    }),
  )
}
