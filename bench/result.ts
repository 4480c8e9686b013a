import { availableParallelism, cpus, totalmem } from 'node:os'
import { renderTable } from '#src/cli/table.ts'
import type { Bar, Verdict } from './bars.ts'
import { FIGURES, type Figures, medians, type Spreads } from './figures.ts'
import type { Measured } from './measure.ts'
import { type CpuByThread, STAGES } from './threads.ts'
import type { About } from './world.ts'

export type MeasuredCompany = {
  readonly notices: number
  readonly about: About
  /** Medians over the runs. */
  readonly figures: Figures
  readonly spread: Spreads
  /** Of the full sync; null if the system does not report it. */
  readonly threads: CpuByThread | null
  readonly runs: readonly Measured[]
}

/** The machine that ran the benchmark. */
export type Machine = {
  readonly processor: string
  readonly cores: number
  readonly memoryGigabytes: number
  readonly node: string
}

export function thisMachine(): Machine {
  return {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    node: process.version,
  }
}

export function describeMachine({ processor, cores, memoryGigabytes, node }: Machine): string {
  return `${processor}, ${cores} cores, ${memoryGigabytes} GB, Node ${node}`
}

/** Results of the sync benchmark. */
export type Bench = {
  readonly machine: Machine
  readonly settings: {
    readonly latencyMs: number
    readonly concurrency: number
    readonly runs: number
    readonly seed: string
  }
  readonly companies: readonly MeasuredCompany[]
  readonly bars: readonly Bar[]
}

/** The object that `--json` prints: the figures by key, and the reports of each run. */
export function toJson({ machine, settings, companies, bars }: Bench): object {
  return {
    machine,
    settings,
    companies: companies.map(({ about, figures, spread, threads, runs }) => ({
      ...about,
      figures: rounded(figures),
      spread,
      threads,
      runs: runs.map(run => ({
        figures: rounded(medians([run])),
        full: run.full.report,
        unchanged: run.unchanged.report,
        changed: run.changed.report,
        threads: run.full.threads,
      })),
    })),
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

/** The same as text: one column per company, then every bar, met or missed. */
export function describeBench({ machine, settings, companies, bars }: Bench): string {
  const { latencyMs, concurrency, runs } = settings
  const count = (value: number) => value.toLocaleString('en-US')
  const columns = companies.map(({ notices }) => `${count(notices)} notices`)
  const rows = FIGURES.map(({ key, label, digits }) => {
    const cells = companies.map(({ figures, spread }) =>
      shown(figures[key] ?? null, spread[key] ?? null, digits),
    )
    return Object.fromEntries([
      ['figure', label],
      ...columns.map((column, index) => [column, cells[index] ?? '-']),
    ])
  })
  const verdicts = bars.map(bar => ({ notices: bar.notices, ...verdictCells(bar) }))
  const about = companies.map(
    ({ about }) =>
      `${count(about.notices)} notices: ${(about.averageBytes / 1000).toFixed(1)} kB and ${about.averageChildren.toFixed(1)} child rows on average, the largest ${Math.round(about.largestBytes / 1000)} kB; zstd shrinks them ${about.compression.toFixed(1)} times`,
  )
  return [
    `${describeMachine(machine)}; concurrency ${concurrency}, latency ${latencyMs} ms, ${runs === 1 ? 'one run' : `medians of ${runs} runs (least-greatest)`}`,
    ...about,
    renderTable(['figure', ...columns], rows),
    ...companies.map(describeThreads),
    bars.length > 0 ? renderTable(['bar', 'notices', 'value', 'limit', 'verdict'], verdicts) : '',
  ].join('\n')
}

/** The cells of a bar's table row. */
export function verdictCells({ what, value, kind, limit, met }: Verdict) {
  return {
    bar: what,
    value: round(value, 2),
    limit: `${kind === 'most' ? '<=' : '>='} ${limit}`,
    verdict: met ? 'met' : 'MISSED',
  }
}

/** CPU seconds of the full sync, by stage and by kind of thread. */
function describeThreads({ notices, threads }: MeasuredCompany): string {
  const title = `CPU of the full sync of ${notices.toLocaleString('en-US')} notices by thread and stage, s`
  if (threads === null) return `${title}: not available, because this system has no /proc`
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  const cells = (name: string, of: (stage: (typeof STAGES)[number]) => number) => ({
    [title]: name,
    ...Object.fromEntries(STAGES.map(stage => [stage, round(of(stage), 2)])),
    all: round(sum(STAGES.map(of)), 2),
  })
  const rows = Object.entries(threads).map(([kind, spent]) => cells(kind, stage => spent[stage]))
  const all = cells('all', stage => sum(Object.values(threads).map(spent => spent[stage])))
  return renderTable([title, ...STAGES, 'all'], [...rows, all])
}

function shown(value: number | null, spread: Spreads[string], digits: number): string {
  if (value === null) return '-'
  const median = String(round(value, digits))
  if (spread === null || spread === undefined || spread.least === spread.most) return median
  return `${median} (${round(spread.least, digits)}-${round(spread.most, digits)})`
}

function rounded(figures: Figures): Figures {
  return Object.fromEntries(
    FIGURES.map(({ key, digits }) => {
      const value = figures[key] ?? null
      return [key, value === null ? null : round(value, digits + 1)]
    }),
  )
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
