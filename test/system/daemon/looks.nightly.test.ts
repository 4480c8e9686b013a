import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import {
  looksOf,
  NEVER,
  nextRun,
  OFTEN,
  requestSync,
  runsOf,
  startAcme,
  untilOnlyLooks,
} from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { runCommand } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

test('a request gets a run, even if nothing is new', async () => {
  const { environment } = await startAcme(notices(1, 6), { SYNC_CRON: OFTEN })
  const daemon = await startDaemon(environment)
  await nextRun(daemon, 'acme', 0)
  await untilOnlyLooks([daemon], 1)
  await Promise.all([requestSync(daemon, 'acme'), nextRun(daemon, 'acme')])
  const { code, stdout } = await runCommand(['sync', '--enqueue', '--json'], environment)
  expect({ code, report: JSON.parse(stdout) }).toMatchObject({
    code: 0,
    report: { status: 'ok', unchanged: 6 },
  })
  // Afterwards, looks go on.
  await untilOnlyLooks([daemon], 2)
})

test('a run starts at least as often as configured', async () => {
  const { environment } = await startAcme(notices(1, 6), { SYNC_CRON: OFTEN, RUN_AT_LEAST_EVERY: '5s' })
  const daemon = await startDaemon(environment)
  // Without looks, there would be a run every second or two.
  const pauses = () =>
    runsOf(daemon).map(({ started_at }, index, runs) => {
      const end = runs[index - 1]?.finished_at
      return end ? Date.parse(started_at) - Date.parse(end) : 0
    })
  await until(() => pauses().some(ms => ms > 4000), { what: 'a run because the previous one is old' })
  expect(await looksOf(daemon)).toMatchObject({ nothing_new: expect.any(Number) })
})

/** Starts a worker, and holds one of its looks. */
async function startLook() {
  const { company, environment } = await startAcme(notices(1, 6), { SYNC_CRON: OFTEN })
  const daemon = await startDaemon(environment)
  await nextRun(daemon, 'acme', 0)
  await untilOnlyLooks([daemon], 3)
  const held = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
  await held.reached
  return { company, environment, daemon, held }
}

test('a worker that dies during a look leaves its job to another', async () => {
  const { company, environment, daemon, held } = await startLook()
  await daemon.kill()
  held.release()
  company.world.update(idOf(1), { edital: { objeto: 'Outro' } })
  // No other tick comes.
  const next = await startDaemon({ ...environment, SYNC_CRON: NEVER })
  expect(await nextRun(next, 'acme', 0)).toMatchObject({ status: 'ok', changed: 1 })
})
