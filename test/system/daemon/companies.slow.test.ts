import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import {
  expectNoOverlap,
  failedJobs,
  listenTo,
  NEVER,
  nextRun,
  queuedRuns,
  redisSettings,
  requestSync,
  runsOf,
  startAcme,
  untilIdle,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { startWebhook } from '#test/support/webhook.ts'
import type { LogLine } from '#tools/service_process.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 40

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
