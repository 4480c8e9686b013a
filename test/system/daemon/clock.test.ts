import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Worker } from 'bullmq'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { openCompanyRegistry } from '#jobs/queues/company_registry.ts'
import { openQueues, requestRun } from '#jobs/queues/queue.ts'
import { type Slots, shareSlots, takeSlot } from '#jobs/queues/slots.ts'
import { keepSchedules } from '#jobs/scheduler.ts'
import { createLogger } from '#src/lib/log.ts'
import { configured } from '#test/support/alerting.ts'
import { OFTEN } from '#test/support/daemon_runs.ts'
import { settingsFor, temporaryDirectory } from '#test/support/project.ts'
import { openRedis } from '#test/support/redis.ts'

const BEFORE = Date.parse('2026-11-22T12:00:00.000Z')
const HOUR_MS = 3600_000
const NO_DAY = '0 0 31 2 *'

const silent = createLogger('silent', {})

/** A machine whose clock goes back by an hour while the given time passes. */
function startTime() {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: BEFORE })
  onTestFinished(() => void vi.useRealTimers())
  return {
    goBackWithin(ms: number) {
      vi.advanceTimersByTime(ms)
      vi.setSystemTime(BEFORE - HOUR_MS)
    },
  }
}

async function environmentOf(company: string) {
  const dataDir = await temporaryDirectory()
  return { ...settingsFor({ url: 'http://127.0.0.1:9', key: 'k', dataDir, company }), SYNC_CRON: OFTEN }
}

async function openThem() {
  const queues = openQueues(await openRedis(), silent)
  onTestFinished(() => queues.close())
  return queues
}

test('when the clock goes back, schedules that are due too late are set again', async () => {
  const time = startTime()
  const queues = await openThem()
  const registry = await openCompanyRegistry(await environmentOf('acme'))
  const keep = keepSchedules({ queues, registry, log: silent, startedAt: new Date() })
  const next = async () => (await queues.ticks.getJobScheduler('sync-acme'))?.next
  await keep()
  expect(await next()).toBeGreaterThan(BEFORE)
  time.goBackWithin(10_000)
  await keep()
  expect(await next()).toBeLessThanOrEqual(Date.now() + 2000)
})

test('a worker whose clock is behind does not set the tick again that another one is doing: it would come back without data', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: BEFORE })
  onTestFinished(() => void vi.useRealTimers())
  const { url, prefix } = await openRedis()
  const open = () => openQueues({ url, prefix }, silent)
  const [ahead, behind] = [open(), open()]
  onTestFinished(async () => void (await Promise.all([ahead.close(), behind.close()])))
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(JSON.parse(line).msg) })
  const registry = await openCompanyRegistry({ ...(await environmentOf('acme')), SYNC_CRON: '0 * * * *' })
  await keepSchedules({ queues: ahead, registry, log, startedAt: new Date() })()
  // One that is an hour ahead does the tick of 13:00, and schedules that of 14:00.
  vi.setSystemTime(BEFORE + HOUR_MS)
  const began = Promise.withResolvers<void>()
  const end = Promise.withResolvers<void>()
  const done: unknown[] = []
  const worker = new Worker(
    'ticks',
    async job => {
      done.push(job.data)
      began.resolve()
      await end.promise
    },
    { connection: ahead.redis, prefix, skipVersionCheck: true },
  )
  onTestFinished(async () => void (await worker.close(true)))
  await began.promise
  vi.setSystemTime(BEFORE)
  await keepSchedules({ queues: behind, registry, log, startedAt: new Date() })()
  end.resolve()
  await new Promise(resolve => worker.once('completed', resolve))
  vi.setSystemTime(BEFORE + HOUR_MS)
  await worker.waitUntilReady()
  expect(await behind.ticks.getJobCountByTypes('wait', 'delayed', 'active')).toBe(2)
  const left = await behind.ticks.getJobs(['wait', 'delayed', 'active'])
  expect(left.map(job => job?.data)).toEqual([{ company: 'acme' }, { company: 'acme' }])
  expect(done).toEqual([{ company: 'acme' }])
  expect(lines.filter(line => /could not be scheduled/.test(line))).toEqual([])
})

test('… an unusable company is read again', async () => {
  const time = startTime()
  const directory = await temporaryDirectory()
  const file = join(directory, 'companies.yaml')
  const companies = { acme: { sync_cron: OFTEN }, boreal: {} }
  await writeFile(file, JSON.stringify({ defaults: { api_key_file: join(directory, 'key') }, companies }))
  // The cause is outside the file, so it can disappear without a change of the file.
  const environment = { COMPANIES_FILE: file, API_BASE_URL: 'http://127.0.0.1:9', SYNC_CRON: NO_DAY }
  const registry = await openCompanyRegistry(environment)
  expect([...registry.broken.keys()]).toEqual(['boreal'])
  environment.SYNC_CRON = OFTEN
  time.goBackWithin(60_000)
  await registry.refresh()
  expect([...registry.broken.keys()]).toEqual([])
})

test('… a long run still yields its slot', async () => {
  const time = startTime()
  const queues = await openThem()
  await requestRun(queues, 'sync', 'cedro')
  const slots: Slots = new Set()
  for (const company of ['acme', 'boreal']) takeSlot(slots, configured(await environmentOf(company)))
  onTestFinished(() => {
    for (const slot of slots) slot.release()
  })
  const settings = readDaemonSettings({ WORKER_CONCURRENCY: '2', WORKER_FAIR_SHARE: '1m' })
  time.goBackWithin(60_000)
  await shareSlots(slots, { settings, queues, log: silent })
  expect([...slots].map(({ company, cut }) => ({ company, cut }))).toEqual([
    { company: 'acme', cut: null },
    { company: 'boreal', cut: 'share' },
  ])
})
