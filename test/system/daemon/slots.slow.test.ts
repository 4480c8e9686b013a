import { expect, test, vi } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import {
  failedJobs,
  isRun,
  NEVER,
  nextRun,
  redisSettings,
  runsOf,
  startAcme,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { notices } from '#test/support/notices.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { expectTruth } from '#test/support/truth.ts'
import { startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

test('two hung companies do not keep both slots while others wait, and continue once they can', async () => {
  const slugs = ['acme', 'boreal', 'cedro', 'delta']
  const companies = await startCompanies(slugs)
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: once, boreal: once })
  const held = holdAfter(companies.sandbox, 'list', {
    passing: 0,
    waiting: 2,
    company: ['acme', 'boreal'],
  })
  const worker = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    WORKER_CONCURRENCY: '2',
    WORKER_FAIR_SHARE: '6s',
  })
  await held.reached
  await expectUnderWay(worker, ['acme', 'boreal'])
  // While no company waits, they may run as long as they like.
  await companies.configure({ acme: once, boreal: once, cedro: once, delta: once })
  await nextRun(worker, 'cedro', 0)
  await nextRun(worker, 'delta', 0)
  for (const slug of ['cedro', 'delta']) {
    expect(runsOf(worker, slug)).toMatchObject([{ status: 'ok', loaded: 30 }])
  }
  expect(worker.lines.filter(({ msg }) => /WORKER_FAIR_SHARE/.test(msg)).length).toBeGreaterThan(0)
  held.release()
  for (const slug of ['acme', 'boreal']) {
    await worker.waitFor(line => isRun(line, slug) && line.status === 'ok')
    await expectTruth(companies.company(slug))
  }
  await untilIdle(worker)
  // Yielding a slot is not a failure.
  expect(await failedJobs(worker)).toEqual([])
  const metrics = await (await worker.ask('/metrics')).text()
  expect(metrics).not.toMatch(/^editais_runs_total\{.*status="failed"\} [1-9]/m)
})

test('a hung run is ended after RUN_TIMEOUT: the next company runs, and an alert names the timeout', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  const webhook = await startWebhook()
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: { ...once, run_timeout: '3s' } })
  const held = holdAfter(companies.sandbox, 'list', { passing: 0, waiting: 1, company: 'acme' })
  const worker = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL: webhook.url,
    WORKER_CONCURRENCY: '1',
  })
  await held.reached
  await companies.configure({ acme: { ...once, run_timeout: '3s' }, boreal: once })
  expect(await nextRun(worker, 'boreal', 0)).toMatchObject({ status: 'ok' })
  const sentence = 'acme: the run was stopped after 3s (RUN_TIMEOUT) and had loaded nothing.'
  expect(await failedJobs(worker)).toEqual([expect.stringContaining(sentence)])
  await until(() => webhook.messages.length > 0, { what: 'an alert' })
  expect(webhook.messages).toMatchObject([
    { alert: 'run_failed', company: 'acme', message: expect.stringContaining(sentence) },
  ])
  held.release()
})

test('a run longer than RUN_TIMEOUT that makes progress continues in as many runs as it takes', async () => {
  const { company, environment } = await startAcme(notices(1, 60), { RUN_TIMEOUT: '4s' })
  const held = holdAfter(company.sandbox, 'analysis', { passing: 30 })
  const worker = await startDaemon(environment)
  await held.reached
  // A slow machine needs more than one run to get so far.
  const held30 = () => runsOf(worker).reduce((sum, { loaded }) => sum + loaded, 0) === 30
  await until(held30, { what: 'the end of the run that is held' })
  held.release()
  await worker.waitFor(({ msg }) => msg.includes('stopped after 4s (RUN_TIMEOUT). What it fetched is kept'))
  await worker.waitFor(line => isRun(line) && line.status === 'ok')
  const runs = runsOf(worker)
  expect(runs.slice(0, -1).every(({ status }) => status === 'interrupted')).toBe(true)
  expect(runs.length).toBeGreaterThan(1)
  expect(runs.reduce((sum, { loaded }) => sum + loaded, 0)).toBe(60)
  await expectTruth(company)
  expect(await failedJobs(worker)).toEqual([])
})

/** Checks the worker and its runs in /metrics. */
async function expectUnderWay(worker: Daemon, slugs: readonly string[]): Promise<void> {
  const scraped = await readMetrics(await (await worker.ask('/metrics')).text())
  const shown = (name: string) => scraped.get(`editais_${name}`)?.values ?? {}
  expect(shown('slots')).toEqual({ '': slugs.length })
  expect(shown('slots_used')).toEqual({ '': slugs.length })
  expect(shown('redis_up')).toEqual({ '': 1 })
  expect(shown('configuration_ok')).toEqual({ '': 1 })
  expect(Object.keys(shown('build_info'))).toEqual([expect.stringMatching(/^version=\d+\.\d+\.\d+$/)])
  for (const slug of slugs) {
    const ago = Date.now() / 1000 - (shown('run_started_timestamp_seconds')[`company=${slug}`] ?? 0)
    expect(ago).toBeGreaterThanOrEqual(0)
    expect(ago).toBeLessThan(60)
    expect(shown('run_memory_bytes')[`company=${slug}`]).toBeGreaterThan(20_000_000)
  }
  const [free = 0] = Object.values(shown('disk_free_bytes'))
  const [size = 0] = Object.values(shown('disk_size_bytes'))
  expect(free).toBeGreaterThan(0)
  expect(size).toBeGreaterThanOrEqual(free)
}
