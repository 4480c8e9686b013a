import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { percentile } from '../daemon/watch.ts'
import { describeMachine, round, verdictCells } from '../result.ts'
import type { IdleBench, IdleOptions } from './bench.ts'
import type { Measured } from './measure.ts'
import type { Simulated } from './simulate.ts'

/** The company size for which the bars are set. */
const STATED_FOR = 400
const PERIOD_SECONDS = 300

export function judgeIdle(
  { notices, scheduled }: IdleOptions,
  measured: Measured,
  simulated: Simulated,
): Verdict[] {
  const always = [
    verdict('runs without anything new', measured.runsStarted, 'most', 0),
    verdict('files added by looks', measured.filesAdded, 'most', 0),
  ]
  if (notices > STATED_FOR) return always
  const all = measured.workerMs + measured.redisMs
  return [
    ...always,
    verdict('a look: CPU, median, ms', percentile(measured.lookMs, 0.5), 'most', 20),
    verdict('a look with its job and Redis: CPU, ms', all, 'most', 60),
    verdict(`${scheduled} companies: the last look, s`, simulated.lastMs / 1000, 'most', PERIOD_SECONDS),
  ]
}

export function toJson({ machine, settings, measured, simulated, bars }: IdleBench): object {
  const { lookMs, ...rest } = measured
  return {
    machine,
    settings: { ...settings, json: undefined },
    measured: {
      ...rest,
      lookMs: { p50: percentile(lookMs, 0.5), p99: percentile(lookMs, 0.99), max: lookMs.at(-1) },
    },
    simulated,
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

export function describeIdle({ machine, settings, measured, simulated, bars }: IdleBench): string {
  const { notices, companies, scheduled } = settings
  const { lookMs, workerMs, redisMs, workerLooks, healthP99Ms, runMs } = measured
  const percent = (share: number) => `${round(share * 100, 0)} %`
  const rows = [
    ['a look: CPU, p50, ms', round(percentile(lookMs, 0.5), 1)],
    ['a look: CPU, p99, ms', round(percentile(lookMs, 0.99), 1)],
    ['a worker: CPU a look with everything around it, ms', round(workerMs, 1)],
    ['its Redis: CPU a look, ms', round(redisMs, 1)],
    [`/healthz meanwhile (${workerLooks} looks): p99, ms`, round(healthP99Ms, 0)],
    ['a run that finds nothing: CPU, ms', round(runMs, 0)],
    [`${scheduled} companies: from tick to end, p50, s`, round(simulated.waitMs.p50 / 1000, 1)],
    [`${scheduled} companies: from tick to end, p99, s`, round(simulated.waitMs.p99 / 1000, 1)],
    [`${scheduled} companies: load of two cores by looks`, percent(simulated.load)],
    ...simulated.loadWithRuns.map(({ everyHours, load }) => [
      `… and a run of each every ${everyHours} h`,
      percent(load),
    ]),
  ].map(([figure, value]) => ({ figure, value }))
  return [
    `${describeMachine(machine)}; ${companies} companies of ${notices} notices with nothing new; ${scheduled} simulated, one look each in five minutes`,
    renderTable(['figure', 'value'], rows),
    renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)),
  ].join('\n')
}
