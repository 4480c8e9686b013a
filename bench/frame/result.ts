import { availableParallelism, cpus, totalmem } from 'node:os'
import { renderTable } from '#src/present/terminal/table.ts'
import { type Figure, median, round, type Verdict } from './figures.ts'

/** The result of a situation, in one shape for all of them. */
export type Result = {
  readonly situation: string
  readonly machine: string
  readonly options: Readonly<Record<string, unknown>>
  readonly figures: readonly Figure[]
  readonly bars: readonly Verdict[]
  readonly notes: readonly string[]
  readonly records: Readonly<Record<string, readonly unknown[]>>
}

/** The machine of this process. */
export function describeMachine(): string {
  const processor = cpus()[0]?.model ?? 'unknown processor'
  return `${processor}, ${availableParallelism()} cores, ${Math.round(totalmem() / 1e9)} GB, Node ${process.version}`
}

/** The object that `--json` prints. */
export function toJson({ figures, bars, ...result }: Result): object {
  return {
    ...result,
    figures: figures.map(({ digits, bar: _, values, ...named }) => {
      const rounded = values.map(value => round(value, digits + 1))
      return {
        ...named,
        value: values.length === 0 ? null : round(median(values), digits + 1),
        values: rounded,
      }
    }),
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

/** Returns the result as text: the tables of its figures, then every bar, met or missed. */
export function describe({ situation, machine, options, figures, bars, notes }: Result): string {
  const rounds = Math.max(...figures.map(({ values }) => values.length))
  const given = Object.entries(options).map(([name, value]) => `${name} ${value}`)
  const tables = [...Map.groupBy(figures, ({ table }) => table).values()]
  const verdicts = bars.map(({ what, value, kind, limit, met }) => ({
    bar: what,
    value: round(value, 2),
    limit: `${kind === 'most' ? '<=' : '>='} ${limit}`,
    verdict: met ? 'met' : 'MISSED',
  }))
  return [
    `${machine}; ${situation}: ${given.join(', ')}${rounds > 1 ? '; medians of the rounds (least-greatest)' : ''}`,
    ...tables.map(tableOf),
    bars.length > 0 ? renderTable(['bar', 'value', 'limit', 'verdict'], verdicts, LABEL_CHARACTERS) : '',
    ...notes.map(note => `${note}\n`),
  ].join('\n')
}

const LABEL_CHARACTERS = 110

/** One table. In the first one, figures of the same key share a row; in others, those of the same label. */
function tableOf(figures: readonly Figure[]): string {
  const [{ table = null } = {}] = figures
  const title = table ?? 'figure'
  const rows = Map.groupBy(figures, ({ key, label }) => (table === null ? key : label))
  const columns = [...new Set(figures.map(({ column }) => column ?? 'value'))]
  const cells = [...rows.values()].map(row => ({
    ...Object.fromEntries(columns.map(column => [column, '-'])),
    ...Object.fromEntries(row.map(each => [each.column ?? 'value', shown(each)])),
    [title]: row[0]?.label,
  }))
  return renderTable([title, ...columns], cells, LABEL_CHARACTERS)
}

function shown({ values, digits }: Figure): string | number {
  if (values.length === 0) return '-'
  const [least, most] = [Math.min(...values), Math.max(...values)]
  const middle = round(median(values), digits)
  return least === most ? middle : `${middle} (${round(least, digits)}-${round(most, digits)})`
}
