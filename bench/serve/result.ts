import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import type { ServeOptions } from './bench.ts'
import { EVENTS, KINDS, type Measured, type Side } from './measure.ts'

/** The company size for which the bars are set. */
const STATED_FOR = 20_000

export type ServeBench = {
  readonly machine: Machine
  readonly settings: ServeOptions
  readonly measured: Measured
  readonly bars: readonly Verdict[]
}

export function judgeServe({ notices }: ServeOptions, { kinds, peakRssBytes }: Measured): Verdict[] {
  const errors = KINDS.reduce((sum, kind) => sum + kinds[kind].served.errors, 0)
  const always = [verdict('answers other than 200', errors, 'most', 0)]
  if (notices > STATED_FOR) return always
  return [
    ...always,
    verdict('page of 200: p99, ms', kinds.page.served.ms.p99, 'most', 25),
    verdict('page of 200, gzip: p99, ms', kinds['page, gzip'].served.ms.p99, 'most', 25),
    verdict('notice: requests/s', kinds.notice.served.perSecond, 'least', 1500),
    verdict('analysis: requests/s', kinds.analysis.served.perSecond, 'least', 800),
    verdict('search, 20 clients: p99, ms', kinds.search.served.ms.p99, 'most', 50),
    verdict('export, 1 client: MB/s', megabytesPerSecond(kinds.export), 'least', 100),
    verdict('changes: events/s', kinds.changes.served.perSecond * EVENTS, 'least', 5000),
    verdict('peak RSS of the server, MB', peakRssBytes / 1e6, 'most', 800),
  ]
}

function megabytesPerSecond({ served, bodyBytes }: Side): number {
  return (served.perSecond * bodyBytes) / 1e6
}

export function toJson({ machine, settings, measured, bars }: ServeBench): object {
  return {
    machine,
    settings: { ...settings, json: undefined },
    measured,
    bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })),
  }
}

export function describeServe({ machine, settings, measured, bars }: ServeBench): string {
  const { notices, clients, seconds } = settings
  const rows = KINDS.map(kind => {
    const { served, floor, bodyBytes } = measured.kinds[kind]
    return {
      asked: kind,
      bytes: bodyBytes,
      'MB/s': round(megabytesPerSecond(measured.kinds[kind]), 0),
      'requests/s': round(served.perSecond, 0),
      'p50, ms': round(served.ms.p50, 1),
      'p99, ms': round(served.ms.p99, 1),
      'floor, requests/s': round(floor.perSecond, 0),
      'floor, p99, ms': round(floor.ms.p99, 1),
      'share of the floor': round(served.perSecond / floor.perSecond, 2),
    }
  })
  const ready = `ready after ${round(measured.readySeconds, 1)} s; peak RSS ${round(measured.peakRssBytes / 1e6, 0)} MB, of the builder ${round(measured.builderRssBytes / 1e6, 0)} MB`
  return [
    `${describeMachine(machine)}; ${notices.toLocaleString('en-US')} notices, ${clients} clients for ${seconds} s each, on the same machine; ${ready}`,
    renderTable(Object.keys(rows[0] as object), rows),
    renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)),
  ].join('\n')
}
