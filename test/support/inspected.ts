import { expect, onTestFinished } from 'vitest'
import { type Inspection, inspect } from '#jobs/alerts/inspect.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import { openQueues } from '#jobs/queues/queue.ts'
import { makeDirectories } from '#src/core/company/company.ts'
import { createReport } from '#src/core/company/run_report.ts'
import { type CompanyState, writeState } from '#src/core/company/state.ts'
import { createLogger } from '#src/lib/log.ts'
import { type Alerter, configured, startAlerter, startClock } from './alerting.ts'
import { type Environment, settingsFor, temporaryDirectory } from './project.ts'
import { openRedis } from './redis.ts'
import { received, startWebhook, type Webhook } from './webhook.ts'

export const MINUTE = 60_000

/** A company without runs, inspected by a worker that has just started. */
export type Scene = {
  readonly clock: ReturnType<typeof startClock>
  readonly acme: Company
  readonly companies: Map<string, Company>
  readonly alerts: Alerter
  readonly webhook: Webhook
  readonly queues: ReturnType<typeof openQueues>
  /** What the inspection itself logs. */
  readonly lines: string[]
  good(at: string | null, error?: string): Promise<void>
  /** Inspects as a worker does, and returns the alerts that were sent. */
  look(seen?: Partial<Inspection>): Promise<string[]>
}

export async function startScene(
  settings: Environment = {},
  options: { redis?: { url: string; prefix: string }; start?: string } = {},
): Promise<Scene> {
  const place = options.redis ?? (await openRedis())
  const clock = startClock(options.start ?? '2026-11-21T12:01:00.000Z')
  const webhook = await startWebhook()
  const alerts = startAlerter({
    ...{ redis: place, webhookUrl: webhook.url, now: clock },
    settings: { ALERT_REPEAT: '0' },
  })
  const lines: string[] = []
  const log = createLogger('trace', {}, { write: line => void lines.push(line) })
  const queues = openQueues(place, log)
  onTestFinished(() => queues.close())
  const dataDir = await temporaryDirectory()
  const acme = configured({ ...settingsFor({ url: 'http://127.0.0.1:1', key: 'k', dataDir }), ...settings })
  await makeDirectories(acme.paths)
  const companies = new Map([['acme', acme]])
  const startedAt = clock()
  const scene: Scene = {
    clock,
    acme,
    companies,
    alerts,
    webhook,
    queues,
    lines,
    good: (at, error) => writeState(acme.paths, stateOf(at, error)),
    async look(seen = {}) {
      webhook.messages.length = 0
      await inspect({
        queues,
        alerts,
        log,
        startedAt,
        now: clock(),
        isActive: () => false,
        settings: { redis: place },
        registry: { companies, problem: null, broken: new Map() },
        readSpace: async () => ({ blocks: 100, bavail: 50 }),
        ...seen,
      })
      await alerts.deliver()
      return received(webhook)
    },
  }
  expect(await scene.look()).toEqual([])
  return scene
}

function stateOf(last_good_at: string | null, error: string | null = null): CompanyState {
  return {
    last_run: { ...createReport('run', 'incremental', new Date()), error },
    causes: [],
    last_good_at,
    quarantined: 0,
    quarantined_before: 0,
    raw_log: { segments: 1, bytes: 1 },
    snapshot: { directory: 'x', bytes: 1 },
  }
}
