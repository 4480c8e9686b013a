import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Company } from '#jobs/queues/company_registry.ts'
import { visit, WEBHOOK_TIMEOUT_MS } from './receivers.ts'

/** A receiver that is down for a moment must not cause an alarm. */
const PAUSES_MS = [1000, 5000]

export type Heartbeat = (company: Pick<Company, 'slug' | 'schedule'>) => Promise<void>

/**
 * Requests a company's HEARTBEAT_URL after a good run. Its receiver alerts when the requests stop, whatever the cause:
 * this worker, its machine, Redis or the API. Never throws.
 */
export function createHeartbeat({
  log,
  pausesMs = PAUSES_MS,
  timeoutMs = WEBHOOK_TIMEOUT_MS,
}: {
  readonly log: Logger
  readonly pausesMs?: readonly number[]
  readonly timeoutMs?: number
}): Heartbeat {
  const failing = new Set<string>()
  return async ({ slug, schedule: { heartbeatUrl } }) => {
    if (heartbeatUrl === null) return
    const about = { company: slug }
    // Only the host is shown: the address may hold a token.
    const { host } = new URL(heartbeatUrl)
    let answer = await visit(heartbeatUrl, timeoutMs)
    for (const pauseMs of pausesMs) {
      if (answer.outcome === 'delivered') break
      await sleep(pauseMs)
      answer = await visit(heartbeatUrl, timeoutMs)
    }
    if (answer.outcome === 'delivered') {
      if (failing.delete(slug)) log.info(about, `The heartbeat at ${host} is accepted again.`)
    } else if (!failing.has(slug)) {
      failing.add(slug)
      log.error(about, `The heartbeat at ${host} ${answer.said}. Check HEARTBEAT_URL.`)
    }
  }
}
