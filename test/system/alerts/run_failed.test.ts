import { expect, test } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { alertAfterRun } from '#jobs/alerts/alerts.ts'
import { noteEnd } from '#jobs/processors.ts'
import type { Ended } from '#jobs/queues/queue.ts'
import { takeSlot } from '#jobs/queues/slots.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { noteFailure, readFailure } from '#src/core/company/run_report.ts'
import { type CompanyState, readState } from '#src/core/company/state.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { EXIT } from '#src/lib/errors.ts'
import { createLogger } from '#src/lib/log.ts'
import { sync } from '#src/sync.ts'
import { configured, startAlerter } from '#test/support/alerting.ts'
import { contextHere, syncHere } from '#test/support/here.ts'
import { notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'
import { openRedis } from '#test/support/redis.ts'
import { startCompany } from '#test/support/synced.ts'
import { received, startWebhook } from '#test/support/webhook.ts'

const FAILED = { name: 'run_failed', company: 'acme', message: 'A run could not begin, or died.' } as const
const NOW = new Date('2026-11-21T12:00:00.000Z')

async function startFailed() {
  const { environment } = await startCompany(notices(1, 3))
  const webhook = await startWebhook()
  const alerts = startAlerter({ redis: await openRedis(), webhookUrl: webhook.url, now: () => NOW })
  const company = configured(environment)
  await syncHere(environment)
  await noteFailure(company.paths, 'It hung.', NOW)
  await alerts.raise(FAILED)
  await alerts.deliver()
  const conclude = async (changes: Partial<CompanyState['last_run']> = {}) => {
    const state = (await readState(company.paths)) as CompanyState
    await alertAfterRun(alerts, company, { ...state, last_run: { ...state.last_run, ...changes } })
    await alerts.deliver()
    return received(webhook)
  }
  return { environment, webhook, alerts, company, conclude }
}

/** A run that its worker ends before it reads anything. */
async function interruptedRun(environment: Environment) {
  const context = { ...contextHere(environment), signal: AbortSignal.abort() }
  const { signal } = context
  const api = createApiClient({ ...readApiSettings(environment), retryMs: 10, signal, nowMs: Date.now })
  const { report } = await sync(NEXT, { ...context, api }).finally(() => api.close())
  return report
}

test('a run ended before it loads anything does not clear run_failed; the next complete run does', async () => {
  const { environment, company, conclude } = await startFailed()
  expect(await interruptedRun(environment)).toMatchObject({ status: 'interrupted', loaded: 0 })
  expect(await conclude()).toEqual(['run_failed raised'])
  await noteFailure(company.paths, 'It hung again.', NOW)
  expect(await readFailure(company.paths)).toMatchObject({ times: 2 })
  await syncHere(environment)
  expect(await conclude()).toEqual(['run_failed raised', 'run_failed recovered'])
  expect(await readFailure(company.paths)).toBeNull()
})

test('a run that was ended but loaded something clears run_failed', async () => {
  const { conclude } = await startFailed()
  expect(await conclude({ status: 'interrupted', loaded: 0 })).toEqual(['run_failed raised'])
  expect(await conclude({ status: 'interrupted', loaded: 1 })).toEqual([
    ...['run_failed raised', 'run_failed recovered'],
  ])
})

test('a hung run without a report counts as failed, one with a report by its status', async () => {
  const { alerts, company } = await startFailed()
  const slot = takeSlot(new Set(), company)
  slot.end('timeout')
  slot.release()
  const counted: string[] = []
  const shared = {
    alerts,
    log: createLogger('silent', {}),
    queues: { note: () => {} },
    metrics: {
      observeFailure: (slug: string, mode: string) => void counted.push(`${slug} failed ${mode}`),
      observeRun: (slug: string, { status }: { status: string }) => void counted.push(`${slug} ${status}`),
    },
  }
  const full = { id: 'a', restart: false }
  const end = (ended: Ended, taken: object) => {
    const context = { shared, slot, taken, ended, signal: new AbortController().signal }
    return noteEnd({ id: '1', name: 'sync' } as never, company, context as never)
  }
  const failed: Ended = { kind: 'failed', message: 'Stopped.', exitCode: EXIT.interrupted, cause: null }
  const report = { ...((await readState(company.paths)) as CompanyState).last_run, loaded: 0 }
  const synced = { kind: 'synced', report: { ...report, status: 'interrupted' } } as Ended
  await end(failed, { covers: 0, full: null })
  await end(failed, { covers: 0, full })
  await end(synced, { covers: 0, full: null })
  expect(counted).toEqual(['acme failed incremental', 'acme failed full', 'acme interrupted'])
  expect(await readFailure(company.paths)).toMatchObject({ times: 4 })
})
