import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import {
  activeIn,
  isRun,
  NEVER,
  NO_LOOKS,
  nextRun,
  OFTEN,
  runsOf,
  schedulersIn,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { canOwnRedis, openRedis, startOwnRedis, startProxy, withClient } from '#test/support/redis.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { asked, expectTruth } from '#test/support/truth.ts'
import type { LogLine } from '#tools/service_process.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 60
const ALL = Array.from({ length: TOTAL }, (_, index) => idOf(index + 1))
const OUTAGE_MS = 30_000

/** A company with half of its analyses fetched and the others held until they are released. */
async function startHeld(settings: Record<string, string>) {
  const company = await startCompany(notices(1, TOTAL), { API_TIMEOUT_MS: '60000', ...NO_LOOKS, ...settings })
  return { company, held: holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 }) }
}

/** The shared Redis behind a proxy. */
async function throughProxy() {
  const { url, prefix } = await openRedis()
  const proxy = await startProxy(url)
  const direct = { REDIS_URL: url, REDIS_PREFIX: prefix }
  return { proxy, direct, settings: { ...direct, REDIS_URL: proxy.url } }
}

const isAway = ({ msg }: LogLine) => /^Redis at \S+ does not answer/.test(msg)
const isBack = ({ msg }: LogLine) => msg === 'Redis answers again.'

/** Each outage is logged once. */
function expectLogged(daemon: Daemon, outages: number): void {
  expect(daemon.lines.filter(isAway)).toHaveLength(outages)
  expect(
    daemon.lines.filter(({ msg }) => /Unexpected|ECONNREFUSED(?!\))|Connection is closed/.test(msg)),
  ).toEqual([])
}

async function expectSyncedOnce(company: SyncedCompany): Promise<void> {
  await expectTruth(company)
  expect(asked(company, 'analysis')).toEqual(ALL)
}

test.skipIf(!canOwnRedis)(
  'a run completes while Redis is restarted, and the schedule continues',
  async () => {
    const { company, held } = await startHeld({ SYNC_CRON: OFTEN })
    const redis = await startOwnRedis()
    const environment = { ...company.environment, REDIS_URL: redis.url, REDIS_PREFIX: 'restarted' }
    const daemon = await startDaemon(environment)
    await held.reached
    // Redis may lose what was written in the last second before a crash; the job is older.
    await sleep(1200)
    await redis.kill()
    await daemon.waitFor(isAway)
    await redis.start()
    await daemon.waitFor(isBack)
    held.release()
    expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
    expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: TOTAL })
    expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: TOTAL })
    await expectSyncedOnce(company)
    expect(await daemon.stop()).toBe(0)
    expectLogged(daemon, 1)
    // The queue has recorded the end of each run.
    expect(await activeIn(environment)).toBe(0)
  },
)

test('a run completes while Redis is down for 30 s, and the worker stays healthy', async () => {
  const { company, held } = await startHeld({ SYNC_CRON: OFTEN })
  const { proxy, settings } = await throughProxy()
  const daemon = await startDaemon({ ...company.environment, ...settings })
  await held.reached
  await proxy.cut()
  await daemon.waitFor(isAway)

  const healthz = new Set<number>()
  const readyz = new Set<number>()
  for (const endMs = Date.now() + OUTAGE_MS; Date.now() < endMs; await sleep(500)) {
    healthz.add((await daemon.ask('/healthz')).status)
    readyz.add((await daemon.ask('/readyz')).status)
    // The run ends during the outage.
    if (endMs - Date.now() < OUTAGE_MS / 2) held.release()
  }
  expect([...healthz]).toEqual([200])
  expect([...readyz]).toEqual([503])
  expect(runsOf(daemon)).toMatchObject([{ status: 'ok', loaded: TOTAL }])
  const lines = daemon.lines.length
  await proxy.mend()

  expect(await nextRun(daemon, 'acme', lines)).toMatchObject({ status: 'ok', unchanged: TOTAL })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: TOTAL })
  expect((await daemon.ask('/readyz')).status).toBe(200)
  await expectSyncedOnce(company)
  expect(await daemon.stop()).toBe(0)
  expectLogged(daemon, 1)
})

test.skipIf(!canOwnRedis)('after Redis loses all its data, the schedule is set again by itself', async () => {
  const { company, held } = await startHeld({ SYNC_CRON: OFTEN })
  const redis = await startOwnRedis()
  const environment = { ...company.environment, REDIS_URL: redis.url, REDIS_PREFIX: 'lost' }
  const daemon = await startDaemon(environment)
  const schedulers = await until(
    async () => {
      const found = await schedulersIn(environment)
      return Object.keys(found).length === 2 && found
    },
    { what: 'schedulers' },
  )
  // The worst moment: the job of the current run is lost as well.
  await held.reached
  await withClient(redis.url, client => client.flushall())
  held.release()
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: TOTAL })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: TOTAL })
  expect(await schedulersIn(environment)).toEqual(schedulers)
  await expectSyncedOnce(company)
  expect(await daemon.stop()).toBe(0)
})

test('a worker started without Redis logs it once, starts work when Redis is up, and stops without it', async () => {
  const company = await startCompany(notices(1, TOTAL), { SYNC_CRON: NEVER })
  const { proxy, settings } = await throughProxy()
  await proxy.cut()
  const daemon = await startDaemon({ ...company.environment, ...settings })
  await daemon.waitFor(isAway)
  // It retries several times.
  await sleep(3000)
  expect((await daemon.ask('/healthz')).status).toBe(200)
  expect((await daemon.ask('/readyz')).status).toBe(503)
  await proxy.mend()
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
  expectLogged(daemon, 1)
  expect((await daemon.ask('/readyz')).status).toBe(200)

  // SIGTERM while Redis is down ends an idle worker, and one that never reached Redis.
  await untilIdle(daemon)
  await proxy.cut()
  const lines = daemon.lines.length
  const lonely = await startDaemon({ ...company.environment, ...settings })
  await Promise.all([daemon.waitFor(isAway, { after: lines }), lonely.waitFor(isAway)])
  expect(await Promise.all([stopQuickly(daemon), stopQuickly(lonely)])).toEqual([0, 0])
})

test('SIGTERM while Redis is down keeps what a run has fetched, and the next start continues', async () => {
  const { company, held } = await startHeld({ SYNC_CRON: NEVER, JOB_LOCK_MS: '2000' })
  const { proxy, settings } = await throughProxy()
  const first = await startDaemon({ ...company.environment, ...settings })
  await held.reached
  await proxy.cut()
  await first.waitFor(isAway)
  expect(await stopQuickly(first)).toBe(0)
  held.release()
  expect(runsOf(first)).toMatchObject([{ status: 'interrupted', loaded: TOTAL / 2 }])
  company.sandbox.requests.reset()

  await proxy.mend()
  const second = await startDaemon({ ...company.environment, ...settings })
  const rest = { status: 'ok', loaded: TOTAL / 2, unchanged: TOTAL / 2 }
  expect(await second.waitFor(line => isRun(line, 'acme'))).toMatchObject(rest)
  expect(asked(company, 'analysis')).toHaveLength(TOTAL / 2)
  await expectTruth(company)
})

async function stopQuickly(daemon: Daemon): Promise<number | null> {
  const fromMs = Date.now()
  const code = await daemon.stop()
  expect(Date.now() - fromMs).toBeLessThan(8000)
  return code
}
