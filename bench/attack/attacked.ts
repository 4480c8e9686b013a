import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { peakRssBytes, rssBytes } from '#tools/proc.ts'
import type { ServiceProcess } from '#tools/service_process.ts'
import { asRow, type Figure, figure, megabytes, most } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { answerOf } from '../processes/processes.ts'
import { watchHealth, watchOwnDelay, watchPeak } from '../processes/watch.ts'
import { ATTACKS, type Attacked, type AttackOrder } from './attackers.ts'

const ATTACKERS = fileURLToPath(new URL('attackers.ts', import.meta.url))
/** Resources not released within this time count as never released. */
const RELEASED_WITHIN_MS = 90_000
/** Connections of the health probe. */
const OWN_CONNECTIONS = 3
/** For a server, whatever happens to it. */
export const MOST_MEGABYTES = 800
export const MOST_HEALTH_MS = 250

export type Target = Omit<AttackOrder, 'attack' | 'port'>

/** Attacks a server in all ways, one after another, while health checks run; then ends it. */
export async function attackAll(
  bench: Bench,
  name: string,
  { service, target }: { readonly service: ServiceProcess; readonly target: Target },
): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [attack, { about }] of Object.entries(ATTACKS)) {
    bench.step(`${name}, ${attack}: ${about}`)
    figures.push(...asRow(name, attack, await underAttack(bench, service, { ...target, attack })))
  }
  const rss = megabytes(peakRssBytes(service.pid))
  await service.end('SIGTERM')
  return [
    ...figures,
    figure(`${name}_peak_rss_megabytes`, `${name}: peak RSS, MB`, 0, rss, most(MOST_MEGABYTES)),
  ]
}

async function underAttack(
  bench: Bench,
  { pid, url }: ServiceProcess,
  attack: Omit<AttackOrder, 'port'>,
): Promise<Figure[]> {
  const memory = watchPeak(() => rssBytes(pid))
  const [watched, watchedNew] = [watchHealth(url), watchHealth(url, 'new')]
  const late = watchOwnDelay()
  const order: AttackOrder = { ...attack, port: Number(new URL(url).port) }
  const { connections, statuses } = await answerOf<Attacked>(ATTACKERS, order, bench.directory)
  const endedMs = performance.now()
  // Those that reuse their connections; and those that open one each time, as containers and proxies do.
  const [health, onNew] = [await watched.end(), await watchedNew.end()]
  const lateMs = late.end()
  const seconds = await secondsUntilReleased(url, endedMs)
  const failed = health.failed + onNew.failed
  return [
    figure('peak_rss_megabytes', 'peak RSS, MB', 0, megabytes(memory.end())),
    figure('health_p50_ms', '/healthz p50, ms', 1, health.p50),
    figure('health_p99_ms', '/healthz p99, ms', 1, health.p99, most(MOST_HEALTH_MS)),
    figure('new_p50_ms', 'on new connections p50, ms', 1, onNew.p50),
    figure('new_p99_ms', 'on new connections p99, ms', 1, onNew.p99, most(MOST_HEALTH_MS)),
    figure('unanswered', 'unanswered', 0, failed, most(0)),
    figure('probe_delay_ms', 'probe delay, ms', 0, lateMs),
    figure('released_seconds', 'released after, s', 1, seconds, most(60)),
    figure('connections', 'connections', 0, connections),
    ...Object.entries(statuses).map(([status, count]) =>
      figure(`answers_${status}`, `× ${status}`, 0, count),
    ),
  ]
}

/** From the attack's end until connections and bytes are released; infinite if they are not. */
async function secondsUntilReleased(url: string, endedMs: number): Promise<number> {
  while (performance.now() - endedMs < RELEASED_WITHIN_MS) {
    const { body } = await request(`${url}/metrics`)
    const text = await body.text()
    const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
    const connections = value('editais_http_connections')
    if (connections <= OWN_CONNECTIONS && value('editais_http_unread_bytes') === 0)
      return (performance.now() - endedMs) / 1000
    await sleep(100)
  }
  return Number.POSITIVE_INFINITY
}
