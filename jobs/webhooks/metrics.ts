import { Counter, Gauge, type Registry } from 'prom-client'
import type { Sent } from '#src/server/webhooks/send.ts'
import type { Backlog } from '#src/server/webhooks/subscriptions.ts'

const OWN = 'Of this worker, since it started: sum over the workers.'
const SHARED = 'Read from the data directory: every worker shows the same, so take the max over them.'

export type WebhookMetrics = {
  /** Counts an attempt to post a message, by its outcome. */
  attempted(company: string, outcome: Sent['outcome']): void
  /** Sets the source of what waits for each receiver. */
  watch(backlogs: () => readonly Backlog[]): void
  /** Reads that source, for a scrape. */
  show(): void
}

/** Returns what this worker posted to receivers, and what waits for them. */
export function createWebhookMetrics(registry: Registry, now: () => Date): WebhookMetrics {
  const { attempts, ...gauges } = define(registry)
  let read: () => readonly Backlog[] = () => []
  return {
    attempted: (company, outcome) => attempts.inc({ company, outcome }),
    watch(backlogs) {
      read = backlogs
    },
    show() {
      for (const gauge of Object.values(gauges)) gauge.reset()
      for (const { id: webhook, company, queued, dead, oldestMs, isStopped } of readable(read)) {
        gauges.messages.set({ company, webhook, state: 'waiting' }, queued)
        gauges.messages.set({ company, webhook, state: 'given_up' }, dead)
        const waitedMs = oldestMs === null ? 0 : now().getTime() - oldestMs
        gauges.oldest.set({ company, webhook }, Math.max(0, waitedMs) / 1000)
        gauges.stopped.set({ company, webhook }, isStopped ? 1 : 0)
      }
    },
  }
}

function define(registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string, labelNames: string[]) =>
    new Gauge({ name, help: `${help} ${SHARED}`, labelNames, registers })
  return {
    attempts: new Counter({
      name: 'editais_webhook_attempts_total',
      help: `Messages posted to receivers by outcome: received, failed (it is tried again), unwanted (410: the webhook is stopped). ${OWN}`,
      labelNames: ['company', 'outcome'],
      registers,
    }),
    messages: gauge(
      'editais_webhook_messages',
      'Messages by state: waiting (to be sent, perhaps again), given_up (only a replay sends them again).',
      ['company', 'webhook', 'state'],
    ),
    oldest: gauge(
      'editais_webhook_oldest_waiting_seconds',
      'Age of the oldest message that waits; 0 if none does.',
      ['company', 'webhook'],
    ),
    stopped: gauge(
      'editais_webhook_stopped',
      '1 for a webhook that is stopped, because its receiver answered 410 or its API key is no longer valid; 0 for the others.',
      ['company', 'webhook'],
    ),
  }
}

/** Returns no metrics if the webhooks cannot be read, and logs why: the other metrics do not depend on them. */
function readable(read: () => readonly Backlog[]): readonly Backlog[] {
  try {
    return read()
  } catch {
    return []
  }
}
