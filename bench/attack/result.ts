import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { describeMachine, type Machine, round, verdictCells } from '../result.ts'
import type { Attack } from './attackers.ts'
import type { AttackOptions } from './bench.ts'
import { type Crowd, SERVERS, type Server } from './measure.ts'
import { TEXTS, type TextAttack, type TextsFound, type TextsMeasured, type TextsServed } from './texts.ts'

type Found = {
  /** By the command that starts it. */
  readonly servers: Readonly<Record<(typeof SERVERS)[number], Server>>
  /** From the start to the first answer: with everything to prepare, and with everything prepared. */
  readonly readySeconds: number
  readonly restartSeconds: number
  readonly crowd: Crowd | null
  readonly texts: TextsFound
}

export type AttackBench = Found & {
  readonly machine: Machine
  readonly settings: AttackOptions
  readonly bars: readonly Verdict[]
}

export function judgeAttacks({ servers, restartSeconds, crowd, texts }: Found): Verdict[] {
  return [
    ...SERVERS.flatMap(name => judgeServer(name, servers[name])),
    verdict('restart: first answer after, s', restartSeconds, 'most', 1),
    ...(crowd ? judgeCrowd(crowd) : []),
    ...Object.entries(texts).flatMap(([attack, found]) => judgeTexts(attack, found)),
  ]
}

function judgeServer(name: string, { attacks, peakRssBytes }: Server): Verdict[] {
  return [
    verdict(`${name}: peak RSS, MB`, peakRssBytes / 1e6, 'most', 800),
    ...Object.entries(attacks).flatMap(([attack, { health, newcomers, givenBackSeconds }]) => [
      verdict(`${name}, ${attack}: /healthz p99, ms`, health.p99, 'most', 250),
      verdict(`${name}, ${attack}: /healthz p99 on new connections, ms`, newcomers.p99, 'most', 250),
      verdict(`${name}, ${attack}: /healthz unanswered`, health.failed + newcomers.failed, 'most', 0),
      verdict(
        `${name}, ${attack}: released after, s`,
        givenBackSeconds ?? Number.POSITIVE_INFINITY,
        'most',
        60,
      ),
    ]),
  ]
}

function judgeCrowd(crowd: Crowd): Verdict[] {
  const { companies, processes, serverPeakRssBytes } = crowd
  return [
    verdict(`${companies} companies: builders at once`, processes, 'most', 2),
    verdict(`${companies} companies: peak RSS of the server, MB`, serverPeakRssBytes / 1e6, 'most', 800),
  ]
}

/** About that of a full sync of 20,000 usual notices. */
const SYNC_RSS_MB = 900

function judgeTexts(attack: string, found: TextsMeasured): Verdict[] {
  const { loaded, notices, syncPeakRssBytes, servers } = found
  const byServer = Object.entries(servers).flatMap(([server, { peakRssBytes, health }]) => [
    verdict(`texts, ${attack}: peak RSS of ${server}, MB`, peakRssBytes / 1e6, 'most', 800),
    verdict(`texts, ${attack}: /healthz p99 of ${server}, ms`, health.p99, 'most', 250),
  ])
  return [
    verdict(`texts, ${attack}: notices not loaded`, notices - loaded, 'most', 0),
    verdict(`texts, ${attack}: peak RSS of the sync, MB`, syncPeakRssBytes / 1e6, 'most', SYNC_RSS_MB),
    ...byServer,
  ]
}

export function toJson({ bars, ...found }: AttackBench): object {
  const settings = { ...found.settings, json: undefined }
  return { ...found, settings, bars: bars.map(bar => ({ ...bar, value: round(bar.value, 2) })) }
}

export function describeAttack({ machine, settings, bars, ...found }: AttackBench): string {
  const { servers, readySeconds, restartSeconds, crowd, texts } = found
  const lines = [
    `${describeMachine(machine)}; ${settings.notices.toLocaleString('en-US')} notices; each attack ${settings.seconds} s; first answer after ${round(readySeconds, 1)} s, after a restart ${round(restartSeconds, 2)} s`,
    ...SERVERS.map(name => describeServer(name, servers[name])),
  ]
  if (crowd) lines.push(describeCrowd(crowd))
  lines.push(describeTexts(texts))
  return [...lines, renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells))].join('\n')
}

function describeServer(name: string, { attacks }: Server): string {
  const rows = (Object.keys(attacks) as Attack[]).map(attack => {
    const { health, newcomers, askerLateMs, peakRssBytes, givenBackSeconds, attacked } = attacks[attack]
    const statuses = Object.entries(attacked.statuses).map(([status, count]) => `${count} × ${status}`)
    return {
      [name]: attack,
      'peak RSS, MB': round(peakRssBytes / 1e6, 0),
      '/healthz p50, ms': round(health.p50, 1),
      'p99, ms': round(health.p99, 1),
      'new connections p50, ms': round(newcomers.p50, 1),
      'new p99, ms': round(newcomers.p99, 1),
      unanswered: health.failed + newcomers.failed,
      'probe delay, ms': round(askerLateMs, 0),
      'released after, s': givenBackSeconds === null ? 'never' : round(givenBackSeconds, 1),
      connections: attacked.connections,
      answers: statuses.join(', '),
    }
  })
  return renderTable(Object.keys(rows[0] as object), rows)
}

function describeTexts(texts: TextsFound): string {
  const rows = (Object.keys(texts) as TextAttack[]).map(attack => {
    const found = texts[attack]
    return {
      texts: TEXTS[attack],
      loaded: `${found.loaded} of ${found.notices}`,
      'sync, s': round(found.syncSeconds, 1),
      'peak RSS, MB': round(found.syncPeakRssBytes / 1e6, 0),
      'first answers after, s': perServer(found, ({ readySeconds }) => round(readySeconds, 1)),
      'peak RSS, serve / start, MB': perServer(found, ({ peakRssBytes }) => round(peakRssBytes / 1e6, 0)),
      'p99, ms': perServer(found, ({ health }) => round(health.p99, 1)),
    }
  })
  return renderTable(Object.keys(rows[0] as object), rows)
}

function perServer({ servers }: TextsMeasured, figure: (served: TextsServed) => number | string): string {
  return Object.values(servers).map(figure).join(' / ')
}

function describeCrowd(crowd: Crowd): string {
  const { companies, processes, firstSeconds, allSeconds, restartSeconds, ...memory } = crowd
  return `${companies} companies at once: ${processes} builders; the first served after ${round(firstSeconds, 1)} s, all after ${round(allSeconds, 1)} s, after a restart ${round(restartSeconds, 2)} s; RSS with builders ${round(memory.peakRssBytes / 1e6, 0)} MB, of the server ${round(memory.serverPeakRssBytes / 1e6, 0)} MB\n`
}
