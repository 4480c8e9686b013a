import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import type { Attack } from './attackers.ts'
import type { AttackOptions } from './bench.ts'
import type { Attacks, Crowd } from './measure.ts'

type Found = {
  readonly attacks: Attacks
  /** Of the server, over all attacks. */
  readonly peakRssBytes: number
  /** From the start to the first answer: when everything had to be prepared, and when it was there. */
  readonly readySeconds: number
  readonly restartSeconds: number
  readonly crowd: Crowd | null
}

export type AttackBench = Found & {
  readonly machine: Machine
  readonly settings: AttackOptions
  readonly bars: readonly Verdict[]
}

export function judgeAttacks({ attacks, peakRssBytes, restartSeconds, crowd }: Found): Verdict[] {
  return [
    verdict('peak RSS of the server, MB', peakRssBytes / 1e6, 'most', 800),
    ...Object.entries(attacks).flatMap(([attack, { health, givenBackSeconds }]) => [
      verdict(`${attack}: /healthz p99, ms`, health.p99, 'most', 250),
      verdict(`${attack}: /healthz unanswered`, health.failed, 'most', 0),
      verdict(`${attack}: given back after, s`, givenBackSeconds ?? Number.POSITIVE_INFINITY, 'most', 60),
    ]),
    verdict('restart: first answer after, s', restartSeconds, 'most', 1),
    ...(crowd ? judgeCrowd(crowd) : []),
  ]
}

function judgeCrowd(crowd: Crowd): Verdict[] {
  const { companies, processes, serverPeakRssBytes } = crowd
  return [
    verdict(`${companies} companies: builders at once`, processes, 'most', 2),
    verdict(`${companies} companies: peak RSS of the server, MB`, serverPeakRssBytes / 1e6, 'most', 800),
  ]
}

export function toJson({ bars, ...found }: AttackBench): object {
  const settings = { ...found.settings, json: undefined }
  return { ...found, settings, bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })) }
}

export function describeAttack({ machine, settings, bars, ...found }: AttackBench): string {
  const { attacks, readySeconds, restartSeconds, crowd } = found
  const rows = (Object.keys(attacks) as Attack[]).map(attack => {
    const { health, askerLateMs, peakRssBytes, givenBackSeconds, attacked } = attacks[attack]
    const statuses = Object.entries(attacked.statuses).map(([status, count]) => `${count} × ${status}`)
    return {
      ...{ attack, 'peak RSS, MB': round(peakRssBytes / 1e6, 0), '/healthz p50, ms': round(health.p50, 1) },
      ...{
        'p99, ms': round(health.p99, 1),
        unanswered: health.failed,
        'asker late, ms': round(askerLateMs, 0),
      },
      'given back, s': givenBackSeconds === null ? 'never' : round(givenBackSeconds, 1),
      ...{ connections: attacked.connections, answers: statuses.join(', ') },
    }
  })
  const lines = [
    `${describeMachine(machine)}; ${settings.notices.toLocaleString('en-US')} notices; each attack ${settings.seconds} s; first answer after ${round(readySeconds, 1)} s, after a restart ${round(restartSeconds, 2)} s`,
    renderTable(Object.keys(rows[0] as object), rows),
  ]
  if (crowd) lines.push(describeCrowd(crowd))
  return [...lines, renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells))].join('\n')
}

function describeCrowd(crowd: Crowd): string {
  const { companies, processes, firstSeconds, allSeconds, restartSeconds, ...memory } = crowd
  return `${companies} companies at once: ${processes} builders; the first served after ${round(firstSeconds, 1)} s, all after ${round(allSeconds, 1)} s, after a restart ${round(restartSeconds, 2)} s; RSS with builders ${round(memory.peakRssBytes / 1e6, 0)} MB, of the server ${round(memory.serverPeakRssBytes / 1e6, 0)} MB\n`
}
