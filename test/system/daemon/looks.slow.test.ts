import { readdir, readFile } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { readState } from '#src/core/company/state.ts'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { looksOf, nextRun, OFTEN, runsOf, startAcme, untilOnlyLooks } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type Environment, runCommand } from '#test/support/project.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { expectTruth } from '#test/support/truth.ts'

vi.setConfig(DAEMON_TEST)

const pathsOf = ({ DATA_DIR = '' }: Environment) => companyPaths(DATA_DIR, 'acme')

test('while nothing is new, the schedule only looks: no process, no segment, and the data count as fresh', async () => {
  const { company, environment } = await startAcme(notices(1, 30), { SYNC_CRON: OFTEN })
  const paths = pathsOf(environment)
  const daemon = await startDaemon(environment)
  await untilOnlyLooks([daemon], 3)
  const runs = runsOf(daemon).length
  const segments = await readdir(paths.raw)
  const before = await readState(paths)
  await untilOnlyLooks([daemon], 3)
  expect(runsOf(daemon)).toHaveLength(runs)
  if (process.platform === 'linux')
    expect(await readFile(`/proc/${daemon.pid}/maps`, 'utf8')).not.toContain('duckdb')
  expect(await readdir(paths.raw)).toEqual(segments)
  const after = await readState(paths)
  expect(after).toEqual({ ...before, looked_at: after?.last_good_at, last_good_at: after?.looked_at })
  expect(Date.parse(after?.last_good_at ?? '')).toBeGreaterThan(Date.parse(before?.last_good_at ?? ''))
  const { stdout } = await runCommand(['status'], environment)
  const [, shown = ''] = /^Last look nothing new at (\S+)$/m.exec(stdout) ?? []
  // Another look may have come meanwhile.
  expect(Date.parse(shown)).toBeGreaterThanOrEqual(Date.parse(after?.looked_at ?? ''))
  const scraped = await readMetrics(await (await daemon.ask('/metrics')).text())
  expect(
    scraped.get('editais_last_success_timestamp_seconds')?.values['company=acme'],
  ).toBeGreaterThanOrEqual(Date.parse(after?.last_good_at ?? '') / 1000)

  // Anything new starts a run.
  company.world.update(idOf(1), { edital: { objeto: 'Outro' } })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', changed: 1, unchanged: 29 })
  await untilOnlyLooks([daemon], 1)
  expect((await looksOf(daemon)).run).toBeGreaterThanOrEqual(1)
  await expectTruth(company)
  expect(await daemon.stop()).toBe(0)
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

test('a worker that stops during a look puts its job back, and leaves no error', async () => {
  const { company, environment, daemon, held } = await startLook()
  const runs = runsOf(daemon).length
  expect(await daemon.stop()).toBe(0)
  held.release()
  expect(runsOf(daemon)).toHaveLength(runs)
  expect(daemon.lines.filter(({ level }) => level === 'error')).toEqual([])
  const next = await startDaemon(environment)
  await untilOnlyLooks([next], 1)
  await expectTruth(company)
})
