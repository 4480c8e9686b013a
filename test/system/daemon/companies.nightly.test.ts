import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { askedFor, startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import {
  isRun,
  NEVER,
  nextRun,
  queuedRuns,
  redisSettings,
  requestSync,
  runsOf,
  startIdle,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { asked, expectTruth } from '#test/support/truth.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 40
const ALL = Array.from({ length: TOTAL }, (_, index) => idOf(index + 1))

test('a full run requested during a run follows it, once, even if its worker dies', async () => {
  const { company, environment, worker: first } = await startIdle(notices(1, TOTAL))
  const held = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
  await requestSync(first, 'acme')
  await held.reached
  company.sandbox.requests.reset()
  for (const full of [false, true, true, false]) await requestSync(first, 'acme', { full })
  held.release()
  await until(() => runsOf(first).length >= 2, { what: 'the run that follows' })
  await untilIdle(first)
  expect(runsOf(first)).toMatchObject([
    { mode: 'incremental', status: 'ok', unchanged: TOTAL },
    { mode: 'full', status: 'ok', loaded: TOTAL },
  ])
  expect(asked(company, 'analysis')).toEqual(ALL)

  const heldAgain = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
  await requestSync(first, 'acme')
  await heldAgain.reached
  await requestSync(first, 'acme', { full: true })
  await first.kill()
  heldAgain.release()
  company.sandbox.requests.reset()
  const second = await startDaemon(environment)
  expect(await second.waitFor(line => isRun(line) && line.mode === 'full')).toMatchObject({
    status: 'ok',
    loaded: TOTAL,
  })
  await untilIdle(second)
  expect(runsOf(second).filter(({ mode }) => mode === 'full')).toHaveLength(1)
  expect(asked(company, 'analysis')).toEqual(ALL)
  await expectTruth(company)
})

test('a company whose directory is another one is refused and left to other workers; the others run', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: once, boreal: once })
  const { REDIS_URL, REDIS_PREFIX } = await redisSettings()
  const environment = { ...companies.environment, REDIS_URL, REDIS_PREFIX }
  const redis = new Redis(REDIS_URL)
  onTestFinished(() => redis.disconnect())
  const worker = await startDaemon(environment)
  for (const slug of ['acme', 'boreal']) await nextRun(worker, slug, 0)
  await untilIdle(worker)
  const known = await redis.hget(`${REDIS_PREFIX}:directories`, 'acme')
  await redis.hset(`${REDIS_PREFIX}:directories`, 'acme', 'the-id-of-another-directory')
  companies.sandbox.requests.reset()

  await requestSync(worker, 'acme')
  const refusal = await worker.waitFor(({ msg }) => /^acme is refused/.test(msg))
  expect(refusal).toMatchObject({ level: 'error', company: 'acme' })
  expect(refusal.msg).toContain(`${companies.environment.DATA_DIR}/acme (id ${known}) is not the directory`)
  expect(refusal.msg).toContain('Mount their volume at DATA_DIR')
  await requestSync(worker, 'boreal')
  expect(await nextRun(worker, 'boreal')).toMatchObject({ status: 'ok', unchanged: 30 })
  expect(companies.sandbox.requests.recent.filter(({ company }) => company === 'acme')).toEqual([])

  // It put the job back, so that a worker with the right directory can take it.
  await redis.hset(`${REDIS_PREFIX}:directories`, 'acme', `${known}`)
  expect(await nextRun(worker, 'acme')).toMatchObject({ status: 'ok', unchanged: 30 })
})

test('exactly WORKER_CONCURRENCY companies run in parallel', async () => {
  const companies = await startCompanies(['acme', 'boreal', 'cedro'])
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: once, boreal: once, cedro: once })
  const held = holdAfter(companies.sandbox, 'list', { passing: 0, waiting: 2 })
  const worker = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    WORKER_CONCURRENCY: '2',
  })
  await held.reached
  expect(await queuedRuns(worker)).toEqual({ active: 2, waiting: 1 })
  expect(worker.runs()).toHaveLength(2)
  expect(companies.sandbox.requests.byKind).toMatchObject({ list: 2, analysis: 0 })
  held.release()
  await until(() => runsOf(worker).length === 3, { what: 'three runs' })
  for (const slug of ['acme', 'boreal', 'cedro']) {
    expect(runsOf(worker, slug)).toMatchObject([{ status: 'ok', loaded: 30 }])
    expect(askedFor(companies.sandbox, slug, 'analysis')).toEqual(companies.company(slug).world.ids().sort())
    await expectTruth(companies.company(slug))
  }
})
