import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { OFTEN, startIdle } from '#test/support/daemon_runs.ts'
import { MAIL_USER, startMailServer } from '#test/support/mail_server.ts'
import { notices } from '#test/support/notices.ts'
import { readMetrics } from '#test/support/prometheus.ts'

vi.setConfig(DAEMON_TEST)

async function alerts(daemon: Daemon): Promise<readonly string[]> {
  const scraped = await readMetrics(await (await daemon.ask('/metrics')).text())
  const { values = {} } = scraped.get('editais_alerts') ?? {}
  return Object.keys(values).filter(labels => labels.includes('report_not_mailed'))
}

test('the worker mails the report of the week on its schedule, and raises an alert if it cannot', async () => {
  const { port, received, stop } = await startMailServer({
    login: true,
    refusals: [['mail', 554, 'No mail today']],
  })
  const mail = {
    REPORT_CRON: OFTEN,
    SMTP_URL: `smtp://${encodeURIComponent(MAIL_USER.user)}@127.0.0.1:${port}`,
    SMTP_PASSWORD: MAIL_USER.password,
    REPORT_TO: 'ana@example.com',
  }
  const { environment, worker } = await startIdle(notices(1, 6), mail)
  await worker.waitFor(({ msg }) => /refuses the mail \(554 No mail today\)/.test(msg))
  await until(async () => (await alerts(worker)).length === 1, { what: 'an alert' })
  await until(() => received.length >= 2, { what: 'two mails' })
  await until(async () => (await alerts(worker)).length === 0, { what: 'the end of the alert' })
  expect(received[0]?.mail.subject).toMatch(/^Editais da semana, acme: /)
  // Each is another occasion.
  expect(new Set(received.map(({ mail }) => mail.messageId)).size).toBe(received.length)
  expect(await worker.stop()).toBe(0)
  expect(worker.lines.map(line => JSON.stringify(line)).join('\n')).not.toContain(MAIL_USER.password)

  // A server that is away gets it later: the job waits, and is no failure.
  await stop()
  const next = await startDaemon(environment)
  await next.waitFor(({ msg }) => /cannot be reached/.test(msg))
  expect(await alerts(next)).toEqual([])
  expect(await next.stop()).toBe(0)

  // Without the setting there is no schedule.
  const { REPORT_CRON: _, ...without } = environment
  const last = await startDaemon({ ...without })
  await last.waitFor(({ msg }) => /mail-acme is no longer scheduled/.test(msg))
})
