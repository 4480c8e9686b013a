import { readFile, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { type Daemon, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, redisSettings, runsOf } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { runCommand } from '#test/support/project.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { startWebhook } from '#test/support/webhook.ts'

vi.setConfig({ testTimeout: 240_000 })

const GOOD = Array.from({ length: 6 }, (_, index) => `good-${index}`)
const LOOK_MS = 50

test('three companies of many are in trouble: the others run, and all three are named everywhere', async () => {
  const companies = await startCompanies(['broken', 'keyless', 'killed', ...GOOD], () => notices(1, 3))
  const webhook = await startWebhook()
  const once = { sync_cron: NEVER }
  await companies.configure({
    broken: { ...once, api_timeout_ms: 'soon' },
    keyless: once,
    killed: once,
    ...Object.fromEntries(GOOD.map(slug => [slug, once])),
  })
  await rm(companies.keyFile('keyless'))
  const worker = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL: webhook.url,
  })
  killRunsOf(worker, 'killed')
  await until(() => GOOD.every(slug => runsOf(worker, slug).some(({ status }) => status === 'ok')), {
    what: 'a good run of each of the others',
    withinMs: 150_000,
  })
  await until(() => webhook.messages.length >= 3, { what: 'three alerts', withinMs: 90_000 })
  expect(webhook.messages.map(({ alert, company }) => `${alert} ${company}`).toSorted()).toEqual([
    'run_failed keyless',
    'run_failed killed',
    'wrong_configuration broken',
  ])

  const scraped = await readMetrics(await (await worker.ask('/metrics')).text())
  const named = (name: string) =>
    Object.entries(scraped.get(name)?.values ?? {}).flatMap(([labels, value]) =>
      value === 1 ? [labels] : [],
    )
  expect(named('editais_alerts').toSorted()).toEqual([
    'alert=run_failed,company=keyless',
    'alert=run_failed,company=killed',
    'alert=wrong_configuration,company=broken',
  ])
  expect(named('editais_entry_broken')).toEqual(['company=broken'])
  expect(named('editais_without_good_run').toSorted()).toEqual(['company=keyless', 'company=killed'])
  const failed = named('editais_last_run_status').filter(labels => labels.endsWith('status=failed'))
  expect(failed.toSorted()).toEqual(['company=keyless,status=failed', 'company=killed,status=failed'])

  const all = await runCommand(['status', '--all'], companies.environment)
  const [summary, ...reasons] = all.stdout.split('\n').slice(0, 4)
  expect(summary).toBe(`${GOOD.length + 3} companies, 3 with problems.`)
  expect(reasons).toEqual([
    expect.stringMatching(/^ {2}broken: .*API_TIMEOUT_MS=soon/),
    expect.stringMatching(/^ {2}keyless: The last run failed at .*ENOENT/),
    expect.stringMatching(/^ {2}killed: The last run failed at .*\(SIGKILL\)/),
  ])
  expect(all.stdout.match(/good-\d+ +│ ok/g)).toHaveLength(GOOD.length)
  for (const [slug, expected] of [
    ['broken', /companies\.yaml: broken: API_TIMEOUT_MS=soon: must be a whole number/],
    ['keyless', /API_KEY_FILE \(\S+keyless\.key\) cannot be read: ENOENT/],
    ['killed', /the process of the run died \(SIGKILL\)/],
    ['good-1', /^Last good 20/m],
  ] as const) {
    const { stdout, stderr } = await runCommand(['status', '--company', slug], companies.environment)
    expect(`${stdout}${stderr}`, slug).toMatch(expected)
  }
})

/** Kills each run of the company as soon as it appears, as a system without memory would. */
function killRunsOf(worker: Daemon, company: string): void {
  let isOver = false
  onTestFinished(() => {
    isOver = true
  })
  const look = async () => {
    for (; !isOver; await sleep(LOOK_MS)) {
      for (const pid of worker.runs()) {
        const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
        if (environment.split('\0').includes(`COMPANY=${company}`)) await killProcess(pid)
      }
    }
  }
  void look()
}
