import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { type Companies, startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, type Daemon, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { failedJobs, NEVER, nextRun, redisSettings, requestSync } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

async function startTwo() {
  const companies = await startCompanies(['acme', 'boreal'])
  const webhook = await startWebhook()
  await companies.configure({ acme: { sync_cron: NEVER }, boreal: { sync_cron: NEVER } })
  const environment = {
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL: webhook.url,
  }
  const received = () => webhook.messages.map(({ alert, company, state }) => `${alert} ${company} ${state}`)
  return { companies, environment, webhook, received }
}

async function counted(daemon: Daemon, company: string): Promise<{ ok: number; failed: number }> {
  const scraped = await readMetrics(await (await daemon.ask('/metrics')).text())
  const runs = scraped.get('editais_runs_total')?.values ?? {}
  const of = (status: string) => runs[`company=${company},mode=incremental,status=${status}`] ?? 0
  return { ok: of('ok'), failed: of('failed') }
}

async function statusOf({ environment }: Companies, company: string, ...more: string[]) {
  return await runCommand(['status', '--company', company, ...more], environment)
}

test('runs that cannot start without their key are counted, shown with the reason, and alerted once', async () => {
  const { companies, environment, webhook, received } = await startTwo()
  const daemon = await startDaemon(environment)
  await nextRun(daemon, 'boreal', 0)
  await rm(companies.keyFile('boreal'))
  const reason = `API_KEY_FILE (${companies.keyFile('boreal')}) cannot be read: ENOENT.`
  for (let failed = 1; failed <= 3; failed += 1) {
    await requestSync(daemon, 'boreal')
    await until(async () => (await failedJobs(daemon)).length === failed, { what: 'a failed job' })
  }
  expect(await counted(daemon, 'boreal')).toEqual({ ok: 1, failed: 3 })
  const shown = await statusOf(companies, 'boreal')
  expect(shown.code).toBe(0)
  expect(shown.stdout).toMatch(/^Last run {2}ok, /m)
  expect(shown.stdout).toMatch(/^Since {5}failed at \S+Z, 3 times since \S+Z: API_KEY_FILE \(/m)
  expect(JSON.parse((await statusOf(companies, 'boreal', '--json')).stdout)).toMatchObject({
    last_failure: { times: 3, reason: expect.stringContaining(reason) },
  })
  await until(() => received().length > 0, { what: 'an alert' })
  expect(webhook.messages[0]?.message).toContain(reason)

  // A run that completes ends the failure.
  await writeFile(companies.keyFile('boreal'), companies.keyOf('boreal'))
  await requestSync(daemon, 'boreal')
  await until(async () => (await counted(daemon, 'boreal')).ok === 2, { what: 'a good run' })
  expect((await statusOf(companies, 'boreal')).stdout).not.toContain('failed at')
  await until(() => received().length > 1, { what: 'its recovery' })
  expect(received()).toEqual(['run_failed boreal raised', 'run_failed boreal recovered'])
  expect(await counted(daemon, 'acme')).toMatchObject({ failed: 0 })
})

test('a run that is killed, as by the OOM killer, leaves the same trace', async () => {
  const { companies, environment, webhook, received } = await startTwo()
  await companies.configure({ acme: { sync_cron: NEVER } })
  const held = holdAfter(companies.sandbox, 'analysis', { passing: 10, company: 'acme' })
  const daemon = await startDaemon(environment)
  await held.reached
  const [run = 0] = daemon.runs()
  await killProcess(run)
  held.release()
  await until(() => received().length > 0, { what: 'an alert' })
  expect(received()).toEqual(['run_failed acme raised'])
  expect(webhook.messages[0]?.message).toContain('the process of the run died (SIGKILL)')
  expect(await counted(daemon, 'acme')).toEqual({ ok: 0, failed: 1 })
  // The run was killed after it published the list, or before anything is published; both name it.
  const { stdout, stderr } = await statusOf(companies, 'acme')
  expect(`${stdout}${stderr}`).toMatch(/failed at \S+Z: acme: the process of the run died \(SIGKILL\)/)
})

test('a run whose process cannot be started leaves the same trace', async () => {
  const { companies, environment, webhook, received } = await startTwo()
  await companies.configure({ acme: { sync_cron: NEVER } })
  const preload = join(await temporaryDirectory(), 'no_process.mjs')
  await writeFile(preload, "process.execPath = '/none'")
  const daemon = await startDaemon(environment, { env: { NODE_OPTIONS: `--import=${preload}` } })
  await until(() => received().length > 0, { what: 'an alert' })
  expect(received()).toEqual(['run_failed acme raised'])
  expect(webhook.messages[0]?.message).toContain('cannot start the process of the run (ENOENT)')
  expect(await counted(daemon, 'acme')).toEqual({ ok: 0, failed: 1 })
  expect((await statusOf(companies, 'acme')).stderr).toContain('cannot start the process of the run (ENOENT)')
  expect(JSON.stringify(daemon.lines)).not.toMatch(/bug in editais-sync/)
})

test('before the first snapshot, status names the reason of the last failure, here and over HTTP', async () => {
  const { companies, environment } = await startTwo()
  await companies.configure({ boreal: { sync_cron: NEVER } })
  await rm(companies.keyFile('boreal'))
  const daemon = await startDaemon(environment)
  await until(async () => (await failedJobs(daemon)).length > 0, { what: 'a failed job' })
  const sentence = /failed at \S+Z: API_KEY_FILE \(\S+boreal\.key\) cannot be read: ENOENT/
  const { code, stderr } = await statusOf(companies, 'boreal')
  expect(code).toBe(1)
  expect(stderr).toMatch(/^There is no snapshot in .*editais sync/)
  expect(stderr).toMatch(sentence)
  const response = await daemon.ask('/companies/boreal/status')
  expect(response.status).toBe(409)
  expect(await response.text()).toMatch(sentence)
})
