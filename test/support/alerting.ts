import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'
import { readDaemonSettings, readSchedule } from '#config/daemon.ts'
import { readSettings } from '#config/settings.ts'
import { type Alerts, createAlerts } from '#jobs/alerts/alerts.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { createLogger } from '#src/lib/log.ts'
import type { Environment } from './project.ts'
import { openRedis } from './redis.ts'
import { startWebhook, type Webhook } from './webhook.ts'

/** A clock that only a test moves. */
export type Clock = { (): Date; pass(ms: number): void; at(time: string): void }

export function startClock(time = '2026-11-21T12:00:00.000Z'): Clock {
  let ms = Date.parse(time)
  return Object.assign(() => new Date(ms), {
    pass(by: number) {
      ms += by
    },
    at(next: string) {
      ms = Date.parse(next)
    },
  })
}

/** The alerts of one worker, on its own connection. */
export type Alerter = Alerts & {
  readonly redis: Redis
  /** Lines of its log. */
  readonly lines: Record<string, unknown>[]
}

export function startAlerter({
  webhookUrl,
  settings = {},
  ...options
}: {
  redis: { url: string; prefix: string }
  webhookUrl: string | null
  /** Other settings of receivers, as in the environment. */
  settings?: Environment
  now: () => Date
  timeoutMs?: number
}): Alerter {
  const redis = new Redis(options.redis.url)
  onTestFinished(() => redis.disconnect())
  const lines: Record<string, unknown>[] = []
  const log = createLogger('trace', {}, { write: line => void lines.push(JSON.parse(line)) })
  const alerts = createAlerts({
    ...options,
    redis,
    prefix: options.redis.prefix,
    settings: readDaemonSettings({ ...(webhookUrl ? { ALERT_WEBHOOK_URL: webhookUrl } : {}), ...settings })
      .alerts,
    log,
  })
  return { ...alerts, redis, lines }
}

export const REFUSED = { name: 'key_refused', company: 'acme', message: 'The API refuses the key.' } as const
export const ACCEPTED = {
  name: 'key_refused',
  company: 'acme',
  message: 'The API accepts the key again.',
} as const

export type Scene = {
  readonly redis: { url: string; prefix: string }
  readonly webhook: Webhook
  readonly clock: Clock
  /** Another worker on the same Redis. */
  worker(options?: { webhookUrl?: string | null; settings?: Environment; timeoutMs?: number }): Alerter
}

export async function setUpAlerts(): Promise<Scene> {
  const redis = await openRedis()
  const webhook = await startWebhook()
  const clock = startClock()
  return {
    redis,
    webhook,
    clock,
    worker: options => startAlerter({ redis, now: clock, webhookUrl: webhook.url, ...options }),
  }
}

/** A company as in a worker's registry. */
export function configured(environment: Environment): Company {
  const settings = readSettings(environment)
  const paths = companyPaths(settings.dataDir, settings.company)
  return { slug: settings.company, environment, settings, schedule: readSchedule(environment), paths }
}
