import { writeFile } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, nextRun, redisSettings, requestSync } from '#test/support/daemon_runs.ts'
import { arrived, startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

const ALIAS = 'companies:\n  acme:\n    api_timeout_ms: *timeout\n'

test('a stray alias in the file stops no company: runs continue, and /readyz and the log name the line', async () => {
  const companies = await startCompanies(['acme', 'boreal'])
  const webhook = await startWebhook()
  const once = { sync_cron: NEVER }
  await companies.configure({ acme: once, boreal: once })
  const environment = {
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL: webhook.url,
  }
  const daemon = await startDaemon(environment)
  await nextRun(daemon, 'acme', 0)
  await nextRun(daemon, 'boreal', 0)
  await writeFile(companies.file, ALIAS)
  const sentence = `${companies.file}: line 3: *timeout refers to &timeout, which is not defined above it.`
  expect(await daemon.waitFor(({ msg }) => msg.includes(sentence))).toMatchObject({ level: 'error' })
  const ready = await daemon.ask('/readyz')
  expect(ready.status).toBe(503)
  expect(await ready.text()).toContain(sentence)
  for (const slug of ['acme', 'boreal']) {
    const after = daemon.lines.length
    await requestSync(daemon, slug)
    expect(await nextRun(daemon, slug, after)).toMatchObject({ status: 'ok' })
  }
  expect(JSON.stringify(daemon.lines)).not.toMatch(/bug in editais-sync/)
  expect(await daemon.stop()).toBe(0)

  // At the start it exits as with any other wrong setting.
  await expect(startDaemon(environment)).rejects.toThrow(/^the daemon exited with 2:\n.*line 3: \*timeout/)
})

test('a broken entry affects no other company, at the start or later, and its alert names it', async () => {
  const companies = await startCompanies(['acme', 'boreal', 'cedro'])
  const webhook = await startWebhook()
  const once = { sync_cron: NEVER }
  const broken = { sync_cron: '0 0 31 2 *' }
  await companies.configure({ acme: once, boreal: broken, cedro: once })
  const daemon = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    ALERT_WEBHOOK_URL: webhook.url,
  })
  const sentence = `${companies.file}: boreal: SYNC_CRON=0 0 31 2 *: never fires`
  expect(await daemon.waitFor(({ msg }) => msg.includes(sentence))).toMatchObject({
    level: 'error',
    company: 'boreal',
  })
  await nextRun(daemon, 'acme', 0)
  await nextRun(daemon, 'cedro', 0)
  expect(await (await daemon.ask('/readyz')).text()).toContain(sentence)
  const status = await daemon.ask('/companies/boreal/status')
  expect([status.status, await status.text()]).toEqual([409, expect.stringContaining(sentence)])

  // Repaired, it runs; broken again, it keeps its last good settings.
  await companies.configure({ acme: once, boreal: once, cedro: once })
  await nextRun(daemon, 'boreal', 0)
  await until(async () => (await daemon.ask('/readyz')).ok, { what: 'a ready worker' })
  await companies.configure({ acme: once, boreal: broken, cedro: once })
  await until(async () => !(await daemon.ask('/readyz')).ok, { what: 'a worker that is not ready' })
  const after = daemon.lines.length
  await requestSync(daemon, 'boreal')
  expect(await nextRun(daemon, 'boreal', after)).toMatchObject({ status: 'ok' })

  await arrived(webhook, 1, 90_000)
  expect(webhook.messages).toMatchObject([
    { alert: 'wrong_configuration', company: 'boreal', message: expect.stringContaining('never fires') },
  ])
})
