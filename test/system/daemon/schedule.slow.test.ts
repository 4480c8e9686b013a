import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import {
  NEVER,
  NO_LOOKS,
  nextRun,
  OFTEN,
  queuedRuns,
  redisSettings,
  runsOf,
  schedulersIn,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { startCompany } from '#test/support/synced.ts'

vi.setConfig(DAEMON_TEST)

const MAINTENANCE = '30 3 * * * America/Sao_Paulo'

test('the schedule keeps firing', async () => {
  const company = await startCompany(notices(1, 30), { SYNC_CRON: OFTEN, ...NO_LOOKS })
  const daemon = await startDaemon({ ...company.environment, ...(await redisSettings()) })
  await until(() => runsOf(daemon).length >= 3, { what: 'a third run' })
  expect(await daemon.stop()).toBe(0)
  // One more may have started and been stopped.
  const runs = runsOf(daemon).filter(({ status }) => status !== 'interrupted')
  expect(runs.map(({ status, mode, listed }) => ({ status, mode, listed }))).toEqual(
    runs.map(() => ({ status: 'ok', mode: 'incremental', listed: 30 })),
  )
  // The first starts at once; after that there are no more than the schedule allows.
  const times = runs.map(({ started_at }) => Date.parse(started_at))
  const periods = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 2000
  expect(runs.length - 1).toBeLessThanOrEqual(Math.ceil(periods) + 1)
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

const BROKEN_FILES: readonly (readonly [string, string])[] = [
  ['companies: {acme: {api_key: edk_in_the_file}}', 'acme: api_key: do not put a key into this file'],
  ['companies: {acme: {api_key_file: key, sync_cron: often}}', 'SYNC_CRON=often: must be a cron expression'],
  ['companies: [acme', 'companies.yaml: '],
]

test('companies are added, changed and removed with their file, without a restart', async () => {
  const companies = await startCompanies(['acme', 'boreal', 'cedro'])
  const environment = { ...companies.environment, ...(await redisSettings()), ...NO_LOOKS }
  const often = { sync_cron: '*/6 * * * * *' }
  const readiness = async (worker: Daemon) => {
    const response = await worker.ask('/readyz')
    return { status: response.status, text: await response.text() }
  }
  await companies.configure({ acme: often, boreal: often })
  const before = await startDaemon(environment)
  await Promise.all(['acme', 'boreal'].map(slug => nextRun(before, slug, 0)))
  expect(await before.stop()).toBe(0)
  expect(Object.keys(await schedulersIn(environment)).sort()).toEqual([
    ...['maintain-acme', 'maintain-boreal', 'sync-acme', 'sync-boreal'],
  ])

  // A company that was removed while no worker ran.
  await companies.configure({ acme: often })
  const worker = await startDaemon(environment)
  await nextRun(worker, 'acme', 0)
  expect(await schedulersIn(environment)).toEqual({
    'sync-acme': `${often.sync_cron} America/Sao_Paulo`,
    'maintain-acme': MAINTENANCE,
  })
  expect(await readiness(worker)).toMatchObject({ status: 200 })

  // A broken file changes nothing and is reported, whether a tick or the worker itself reads it first.
  for (const [text, sentence] of BROKEN_FILES) {
    const lines = worker.lines.length
    await writeFile(companies.file, text)
    await worker.waitFor(({ msg }) => msg.includes(sentence), { after: lines, withinMs: 10_000 })
    expect(await readiness(worker)).toMatchObject({ status: 503, text: expect.stringContaining(sentence) })
  }
  expect(await nextRun(worker, 'acme')).toMatchObject({ status: 'ok' })
  expect(JSON.stringify(worker.lines)).not.toContain('edk_in_the_file')

  // A new company.
  await companies.configure({ acme: often, cedro: often })
  expect(await nextRun(worker, 'cedro', 0)).toMatchObject({ status: 'ok', listed: 30 })
  expect(await readiness(worker)).toMatchObject({ status: 200 })
  await nextRun(worker, 'cedro')

  // One is removed, and the other gets a new schedule.
  await companies.configure({ acme: { sync_cron: NEVER } })
  await until(
    async () => {
      const schedulers = await schedulersIn(environment)
      return Object.keys(schedulers).length === 2 && schedulers['sync-acme'] === `${NEVER} America/Sao_Paulo`
    },
    { what: () => `the schedulers of acme alone, among ${JSON.stringify(worker.lines.slice(-5))}` },
  )
  // A run requested before the removal is handed to other workers, which might know the company.
  await untilIdle(worker)
  await expectQuiet([worker], runsOf(worker).length)
  expect((await worker.ask('/companies/cedro/status')).status).toBe(404)
})
