import { expect, test, vi } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { readState } from '#src/core/company/state.ts'
import { DAEMON_TEST, killProcess, startDaemon } from '#test/support/daemon.ts'
import { failedJobs, nextRun, OFTEN, runsOf, startAcme, startTwoWorkers } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { notices } from '#test/support/notices.ts'
import type { SyncedCompany } from '#test/support/synced.ts'
import { queryWarehouse } from '#test/support/tables.ts'
import { asked, expectTruth, idsBut, publishedAnalyses } from '#test/support/truth.ts'

vi.setConfig(DAEMON_TEST)

test('SIGTERM during a run keeps what was fetched, and the next start continues from there', async () => {
  const { company, environment } = await startAcme(notices(1, 60))
  const held = holdAfter(company.sandbox, 'analysis', { passing: 30 })
  const first = await startDaemon(environment)
  await held.reached
  const stoppedAtMs = Date.now()
  expect(await first.stop()).toBe(0)
  expect(Date.now() - stoppedAtMs).toBeLessThan(10_000)
  held.release()

  const stopped = { status: 'interrupted', listed: 60, loaded: 30, not_attempted: 30 }
  expect(runsOf(first)).toMatchObject([stopped])
  expect(first.lines.at(-1)?.msg).toBe('Stopped.')
  expect(await stateOf(company)).toMatchObject({ last_run: stopped, last_good_at: null })
  expect(await queryWarehouse(company.environment, 'SELECT status, loaded FROM sync_runs')).toEqual([
    { status: 'interrupted', loaded: 30 },
  ])
  const kept = await publishedAnalyses(company)
  expect(kept).toHaveLength(30)

  company.sandbox.requests.reset()
  // The schedule is not due soon: the run itself was put back.
  const second = await startDaemon(environment)
  expect(await nextRun(second, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 30, unchanged: 30 })
  expect(asked(company, 'analysis')).toEqual(idsBut(60, kept))
  await expectTruth(company)
  expect(await publishedAnalyses(company)).toHaveLength(60)
})

test('if a worker is killed, its run ends by itself and another worker continues from there', async () => {
  const { company, environment } = await startAcme(notices(1, 60))
  const held = holdAfter(company.sandbox, 'analysis', { passing: 30 })
  const { busy, idle } = await startTwoWorkers(environment)
  await held.reached
  const runs = busy.runs()
  expect(runs).toHaveLength(1)
  await busy.kill()
  expect(await nextRun(busy, 'acme', 0)).toMatchObject({ status: 'interrupted', loaded: 30 })
  held.release()
  const kept = await publishedAnalyses(company)
  expect(kept).toHaveLength(30)
  company.sandbox.requests.reset()

  expect(await nextRun(idle, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 30, unchanged: 30 })
  expect(asked(company, 'analysis')).toEqual(idsBut(60, kept))
  await expectTruth(company)
})

test("if a run's process is killed, the job fails with a clear sentence, and the next run makes up for it", async () => {
  const { company, environment } = await startAcme(notices(1, 60), { SYNC_CRON: OFTEN })
  const held = holdAfter(company.sandbox, 'analysis', { passing: 30 })
  const daemon = await startDaemon(environment)
  await held.reached
  const [run = 0] = daemon.runs()
  await killProcess(run)
  held.release()
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', listed: 60, loaded: 60 })
  await expectTruth(company)

  const sentence =
    /^acme: the process of the run died \(SIGKILL\)\. What it stored is kept; the next run continues/
  expect(await failedJobs(daemon)).toEqual([expect.stringMatching(sentence)])
  // Operators look into the log first.
  expect(daemon.lines.filter(({ msg }) => sentence.test(msg))).toMatchObject([
    { company: 'acme', level: 'error' },
  ])
})

async function stateOf({ environment }: SyncedCompany) {
  return await readState(companyPaths(environment.DATA_DIR ?? '', 'acme'))
}
