import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, startAcme, untilOnlyLooks } from '#test/support/daemon_runs.ts'
import { anotherHost, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'

vi.setConfig(DAEMON_TEST)

test('a tick goes to the host of the last run, where a look can replace a run; if that host is lost, to another one', async () => {
  const { settings } = await startSharedLog()
  // A tick during a run requests another one, so there is time for a run between two ticks.
  const { company, environment } = await startAcme(notices(1, 10), {
    ...settings,
    SYNC_CRON: '*/5 * * * * *',
  })
  const first = await startDaemon(environment)
  await untilOnlyLooks([first], 1)
  const second = await startDaemon((await anotherHost({ ...company, environment })).environment)
  await until(async () => (await second.ask('/readyz')).ok, { what: 'a second worker' })
  // Otherwise, half of the ticks would be runs on the other host.
  await untilOnlyLooks([first, second], 8)

  await first.kill()
  expect(await nextRun(second, 'acme', 0)).toMatchObject({ status: 'ok', unchanged: 10 })
  expect(await second.stop()).toBe(0)
})
