import { expect, test, vi } from 'vitest'
import { type Company, computeJitterMs } from '#jobs/queues/company_registry.ts'
import { configured } from '#test/support/alerting.ts'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NO_LOOKS, redisSettings, runsOf } from '#test/support/daemon_runs.ts'
import { settingsFor } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

function companyOf(slug: string, SYNC_CRON: string): Company {
  return configured({
    ...settingsFor({ url: 'http://127.0.0.1:1', key: 'k', dataDir: '/none', company: slug }),
    SYNC_CRON,
  })
}

test('companies start spread evenly over a tenth of their period, at most a minute, each at a fixed offset', () => {
  const slugs = Array.from({ length: 1000 }, (_, index) => `company-${index}`)
  for (const [cron, spreadMs] of [
    ['0 * * * *', 60_000],
    ['*/5 * * * *', 30_000],
    ['*/10 * * * * *', 1000],
  ] as const) {
    const waits = slugs.map(slug => computeJitterMs(companyOf(slug, cron), slugs.length))
    expect(Math.max(...waits)).toBeLessThan(spreadMs)
    for (let tenth = 0; tenth < 10; tenth += 1) {
      const from = (tenth * spreadMs) / 10
      const within = waits.filter(wait => wait >= from && wait < from + spreadMs / 10).length
      expect(within, `${cron}, tenth ${tenth}`).toBeGreaterThan(60)
      expect(within, `${cron}, tenth ${tenth}`).toBeLessThan(140)
    }
    expect(slugs.map(slug => computeJitterMs(companyOf(slug, cron), slugs.length))).toEqual(waits)
  }
  expect(computeJitterMs(companyOf('acme', '0 * * * *'), 1)).toBe(0)
})

test('each company runs at its own offset after the times of the schedule', async () => {
  const slugs = ['acme', 'boreal', 'cedro']
  const companies = await startCompanies(slugs)
  const sync_cron = '*/30 * * * * *'
  await companies.configure(Object.fromEntries(slugs.map(slug => [slug, { sync_cron }])))
  const worker = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    ...NO_LOOKS,
    WORKER_CONCURRENCY: '3',
  })
  const scheduled = (slug: string) => runsOf(worker, slug).slice(1)
  // The first run of each starts at once, the later ones by the schedule.
  await until(() => slugs.every(slug => scheduled(slug).length >= 1), {
    what: 'a scheduled run of each',
    withinMs: 90_000,
  })
  for (const slug of slugs) {
    const waitMs = computeJitterMs(companyOf(slug, sync_cron), slugs.length)
    expect(waitMs).toBeLessThan(3000)
    const [run] = scheduled(slug)
    expect((Date.parse(run?.started_at ?? '') % 30_000) - waitMs, slug).toBeGreaterThanOrEqual(0)
  }
})
