import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { askedFor, startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import {
  expectNoOverlap,
  failedJobs,
  isRun,
  listenTo,
  NEVER,
  nextRun,
  queuedRuns,
  redisSettings,
  requestSync,
  runsOf,
  startAcme,
  startIdle,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { asked, expectTruth } from '#test/support/truth.ts'
import { startWebhook } from '#test/support/webhook.ts'
import type { LogLine } from '#tools/service_process.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 40
const ALL = Array.from({ length: TOTAL }, (_, index) => idOf(index + 1))

test('a refused key affects no other company; its alert and its recovery are sent once', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  const webhook = await startWebhook()
  const urlFile = join(await temporaryDirectory(), 'webhook')
  await writeFile(urlFile, webhook.url)
  await companies.configure({ acme: { sync_cron: NEVER }, boreal: { sync_cron: NEVER } })
  await writeFile(companies.keyFile('boreal'), 'edk_of_nobody')
  const environment = {
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL_FILE: urlFile,
  }
  const aboutKeys = () => webhook.messages.filter(({ alert }) => alert === 'key_refused')

  const one = await startDaemon(environment)
  const runs = (company: string, status: string) =>
    runsOf(one, company).filter(run => run.status === status).length
  await until(() => runs('boreal', 'failed') >= 1 && runs('acme', 'ok') >= 1, { what: 'a run of each' })
  for (const slug of ['acme', 'boreal']) await requestSync(one, slug)
  await until(() => runs('boreal', 'failed') >= 2 && runs('acme', 'ok') >= 2, { what: 'two runs of each' })
  expect(runs('acme', 'failed')).toBe(0)
  expect((await companies.company('acme').query('SELECT count(*)::INT AS n FROM editais'))[0]).toEqual({
    n: 30,
  })
  expect(new Set(await failedJobs(one))).toEqual(
    new Set([expect.stringMatching(/^API key refused \(401\): .*Create a new key in the app's settings/)]),
  )
  expect(runsOf(one, 'boreal')[0]).toMatchObject({ level: 'error', error: expect.stringContaining('(401)') })

  // Each worker checks for alerts at its start and every half minute; none sends them again.
  const two = await startDaemon(environment)
  await until(() => aboutKeys().length > 0, { what: 'a message' })
  await writeFile(companies.keyFile('boreal'), `${companies.keyOf('boreal')}\n`)
  await requestSync(one, 'boreal')
  const healed = (line: { status?: unknown }) => line.status === 'ok'
  await until(() => runsOf([one, two], 'boreal').some(healed), { what: 'a run with the new key' })
  await until(
    async () => [one, two].some(({ lines }) => lines.some(({ msg }) => /accepts the key again/.test(msg))),
    {
      what: 'the end of the alert',
    },
  )
  const three = await startDaemon(environment)
  await until(() => aboutKeys().length > 1, { what: 'a second message' })
  await requestSync(one, 'boreal')
  await until(() => runsOf([one, two, three], 'boreal').filter(healed).length >= 2, {
    what: 'more good runs',
  })
  expect(aboutKeys()).toMatchObject([
    { company: 'boreal', state: 'raised', message: expect.stringContaining('(401)') },
    { company: 'boreal', state: 'recovered' },
  ])
  expect(webhook.messages.filter(({ company }) => company === 'acme')).toEqual([])
})

test("an unreadable key or directory fails only its own company's runs, and the log gives the reason", async () => {
  const companies = await startCompanies(['acme', 'boreal', 'celeste'])
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: once, boreal: once, celeste: once })
  await rm(companies.keyFile('boreal'))
  const directory = join(companies.environment.DATA_DIR ?? '', 'celeste')
  await writeFile(directory, 'a file')
  const daemon = await startDaemon({ ...companies.environment, ...(await redisSettings()) })
  const sentence = /^API_KEY_FILE \(\S+boreal\.key\) cannot be read: ENOENT\./
  await until(async () => (await failedJobs(daemon)).length >= 2, { what: 'two failed jobs' })
  expect(await failedJobs(daemon)).toEqual(expect.arrayContaining([expect.stringMatching(sentence)]))
  expect(daemon.lines.find(({ msg }) => sentence.test(msg))).toMatchObject({
    company: 'boreal',
    level: 'error',
  })
  const aboutCeleste = (line: LogLine) => line.company === 'celeste' && line.level === 'error'
  expect(await daemon.waitFor(aboutCeleste)).toMatchObject({
    msg: expect.stringContaining(`${directory} cannot be written (ENOTDIR)`),
  })
  await requestSync(daemon, 'acme')
  await until(() => runsOf(daemon, 'acme').length >= 2, { what: 'two runs of the third company' })
  await writeFile(companies.keyFile('boreal'), companies.keyOf('boreal'))
  await requestSync(daemon, 'boreal')
  expect(await nextRun(daemon, 'boreal', 0)).toMatchObject({ status: 'ok', loaded: 30 })
})

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

test("a manual sync and a worker's run wait for each other", async () => {
  const { company, environment } = await startAcme(notices(1, TOTAL))
  const byHand: Environment = { ...company.environment, LOG_LEVEL: 'info' }
  const held = holdAfter(company.sandbox, 'analysis', { passing: 10 })
  const worker = await startDaemon(environment)
  await held.reached
  const [run] = worker.runs()
  const waiting = startCommand(['sync', '--json'], byHand, byHand.DATA_DIR ?? '')
  const output = listenTo(waiting)
  await until(() => output().includes('Waiting for sync of the worker'), { what: 'the line about waiting' })
  expect(output()).toContain(`process ${run}`)
  held.release()
  const { code, stdout } = await waiting.ended
  expect(code).toBe(0)
  const second = JSON.parse(stdout) as RunReport
  expect(second).toMatchObject({ status: 'ok', unchanged: TOTAL, loaded: 0 })
  await untilIdle(worker)
  const [first] = runsOf(worker)
  expect(first).toMatchObject({ status: 'ok', loaded: TOTAL })

  const heldByHand = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
  const holding = startCommand(['sync', '--json'], byHand, byHand.DATA_DIR ?? '')
  await heldByHand.reached
  await requestSync(worker, 'acme')
  const { msg } = await worker.waitFor(line => /^The company is held by sync --company acme/.test(line.msg))
  expect(msg).toContain(`process ${holding.child.pid}`)
  expect(await queuedRuns(worker)).toEqual({ active: 0, waiting: 1 })
  heldByHand.release()
  const third = JSON.parse((await holding.ended).stdout) as RunReport
  const fourth = await nextRun(worker, 'acme')
  expect(fourth).toMatchObject({ status: 'ok', unchanged: TOTAL })
  expectNoOverlap([first as RunReport, second, third, fourth])
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
