import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { OFTEN, runsOf, startAcme } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

const SHIFTED = join(import.meta.dirname, '../../support/shifted_clock.mjs')
const HOUR_MS = 3600_000

type Ready = { readonly ready: boolean; readonly checks: { readonly clock: { readonly detail?: string } } }

test('of three workers, the two whose clocks are wrong say so with the difference: /readyz, log and alert; runs go on', async () => {
  const webhook = await startWebhook()
  const { environment } = await startAcme(notices(1, 12), {
    SYNC_CRON: OFTEN,
    ALERT_WEBHOOK_URL: webhook.url,
  })
  const start = (aheadMs: number) =>
    startDaemon(environment, {
      env: { NODE_OPTIONS: `--import=${SHIFTED}`, CLOCK_AHEAD_MS: String(aheadMs) },
    })
  const right = await start(0)
  const ahead = await start(3 * HOUR_MS)
  const behind = await start(-50 * HOUR_MS)
  const wrong = async (worker: typeof right) => {
    const answer = await worker.ask('/readyz')
    const { ready, checks } = (await answer.json()) as Ready
    return checks.clock.detail && { status: answer.status, ready, detail: checks.clock.detail }
  }
  for (const [worker, text] of [
    [ahead, /^The clock of \S+ is 3 h 0 min ahead of that of Redis: /],
    [behind, /^The clock of \S+ is 2 days 2 h behind that of Redis: /],
  ] as const) {
    const found = await until(() => wrong(worker), { what: 'the wrong clock' })
    expect(found).toEqual({ status: 503, ready: false, detail: expect.stringMatching(text) })
    await worker.waitFor(({ msg }) => text.test(msg))
  }
  expect(await wrong(right)).toBeUndefined()
  const alert = () => webhook.messages.find(message => message.alert === 'wrong_clock')
  expect(await until(alert, { what: 'the alert', withinMs: 90_000 })).toMatchObject({
    severity: 'warning',
    message: expect.stringMatching(/^The clock of \S+ is (3 h 0 min ahead|2 days 2 h behind)/),
  })
  const lines = [right, ahead, behind].flatMap(worker => worker.lines)
  expect(lines.filter(({ msg }) => /undefined|is a bug|Unexpected/.test(msg))).toEqual([])
  const before = runsOf([right, ahead, behind]).length
  await until(() => runsOf([right, ahead, behind]).length > before, { what: 'another run' })
})
