import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import {
  expectNoOverlap,
  NO_LOOKS,
  nextRun,
  queuedRuns,
  redisSettings,
  runsOf,
  schedulersIn,
} from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { startCompany } from '#test/support/synced.ts'
import { queryWarehouse } from '#test/support/tables.ts'

vi.setConfig(DAEMON_TEST)

const MAINTENANCE = '30 3 * * * America/Sao_Paulo'

test('with two workers, long runs never overlap, and at most one waits', async () => {
  const company = await startCompany(notices(1, 30), { SYNC_CRON: '* * * * * *', ...NO_LOOKS })
  company.faults.plan = [{ fault: 'latency', ms: 1500, kinds: ['list'] }]
  const environment = { ...company.environment, ...(await redisSettings()) }
  const workers = await Promise.all([startDaemon(environment), startDaemon(environment)])
  const [one] = workers
  const seen: { active: number; waiting: number }[] = []
  await until(
    async () => {
      seen.push(await queuedRuns(one))
      return runsOf(workers).length >= 4
    },
    { what: 'a fourth run' },
  )
  expect(await Promise.all(workers.map(worker => worker.stop()))).toEqual([0, 0])

  expect(seen.length).toBeGreaterThan(20)
  expect(Math.max(...seen.map(({ active }) => active))).toBe(1)
  expect(Math.max(...seen.map(({ waiting }) => waiting))).toBeLessThanOrEqual(1)
  const runs = await queryWarehouse<{ started_at: string; finished_at: string }>(
    company.environment,
    'SELECT started_at::VARCHAR AS started_at, finished_at::VARCHAR AS finished_at FROM sync_runs ORDER BY 1',
  )
  expect(runs.length).toBeGreaterThanOrEqual(4)
  expectNoOverlap(runs)
  // The queue keeps them apart: no run started only to find the company locked.
  expect(workers.flatMap(({ lines }) => lines).filter(({ msg }) => /held/i.test(msg))).toEqual([])
})

test('a restart duplicates no scheduler, and a changed SYNC_CRON takes effect: missed runs are made up for once', async () => {
  const company = await startCompany(notices(1, 30), NO_LOOKS)
  const environment = { ...company.environment, ...(await redisSettings()) }
  const hourly = { ...environment, SYNC_CRON: '0 * * * *', SOURCE_TIMEZONE: 'America/Manaus' }
  const expected = {
    'sync-acme': '0 * * * * America/Manaus',
    'maintain-acme': '30 3 * * * America/Manaus',
  }
  const first = await startDaemon(hourly)
  await nextRun(first, 'acme', 0)
  expect(await schedulersIn(environment)).toEqual(expected)
  expect(await first.stop()).toBe(0)

  const second = await startDaemon(hourly)
  await until(async () => (await second.ask('/readyz')).ok, { what: 'a ready worker' })
  await expectQuiet([second], 0)
  expect(await schedulersIn(environment)).toEqual(expected)
  expect(await second.stop()).toBe(0)

  // Two times of each minute, both slightly ahead.
  const missedMs = Math.ceil(Date.now() / 1000) * 1000 + 6000
  const seconds = [missedMs, missedMs + 1000].map(ms => new Date(ms).getSeconds())
  const ahead = { ...environment, SYNC_CRON: `${seconds.sort((a, b) => a - b).join()} * * * * *` }
  const third = await startDaemon(ahead)
  await third.waitFor(({ msg }) => msg.startsWith('sync is scheduled'))
  await until(async () => (await schedulersIn(environment))['maintain-acme'] === MAINTENANCE, {
    what: 'the other schedule',
  })
  expect(await schedulersIn(environment)).toEqual({
    'sync-acme': `${ahead.SYNC_CRON} America/Sao_Paulo`,
    'maintain-acme': MAINTENANCE,
  })
  expect(await third.stop()).toBe(0)
  expect(runsOf(third)).toEqual([])
  expect(Date.now()).toBeLessThan(missedMs)
  await sleep(missedMs + 1500 - Date.now())

  // Either worker may take it.
  const workers = await Promise.all([startDaemon(ahead), startDaemon(ahead)])
  await until(() => runsOf(workers).length > 0, { what: 'the run that was missed', withinMs: 10_000 })
  await expectQuiet(workers, 1)
})

/** Checks that this many runs have ended, and that no further one starts. */
async function expectQuiet(workers: readonly Daemon[], runs: number): Promise<void> {
  const [one] = workers as [Daemon]
  for (const endMs = Date.now() + 2000; Date.now() < endMs; await sleep(200)) {
    expect(runsOf(workers)).toHaveLength(runs)
    expect(await queuedRuns(one)).toMatchObject({ waiting: 0 })
  }
  expect(await queuedRuns(one)).toEqual({ active: 0, waiting: 0 })
}
