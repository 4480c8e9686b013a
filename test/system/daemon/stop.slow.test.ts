import { expect, test, vi } from 'vitest'
import { sealedSegments } from '#src/store/rawlog/files.ts'
import { DAEMON_TEST, type Daemon, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, runsOf, startAcme } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { bareNotice, idOf } from '#test/support/notices.ts'
import { rawDirectory, readLog } from '#test/support/prepared.ts'
import type { Environment } from '#test/support/project.ts'
import type { SyncedCompany } from '#test/support/synced.ts'
import { asked, expectTruth } from '#test/support/truth.ts'

vi.setConfig(DAEMON_TEST)

test('if a worker is killed together with its run, another one refetches nothing that was sealed', async () => {
  // More analyses than a segment holds, so that one is sealed during the run.
  const total = 3200
  const { company, environment } = await startAcme(
    Array.from({ length: total }, (_, index) => bareNotice(index + 1)),
  )
  const held = holdAfter(company.sandbox, 'analysis', { passing: 3100 })
  const { busy, idle } = await startTwoWorkers(environment)
  await held.reached
  const raw = rawDirectory(company.environment)
  await until(async () => (await sealedSegments(raw)).length >= 3, { what: 'a sealed segment of analyses' })
  const [run = 0] = busy.runs()
  await Promise.all([busy.kill(), killProcess(run)])
  held.release()
  const sealed = (await readLog(company)).filter(({ type }) => type === 'analysis')
  const sealedIds = sealed.map(({ edital_id }) => String(edital_id))
  expect(sealedIds.length).toBeGreaterThanOrEqual(3000)
  expect(sealedIds.length).toBeLessThan(3100)
  expect(runsOf(busy)).toEqual([])
  company.sandbox.requests.reset()

  expect(await nextRun(idle, 'acme', 0)).toMatchObject({ status: 'ok', unchanged: sealedIds.length })
  expect(asked(company, 'analysis')).toEqual(idsBut(total, sealedIds))
  await expectTruth(company)
  expect(await publishedAnalyses(company)).toHaveLength(total)
})

/** Starts two workers; resolves once one of them has started the run. */
async function startTwoWorkers(environment: Environment): Promise<{ busy: Daemon; idle: Daemon }> {
  const workers = await Promise.all([startDaemon(environment), startDaemon(environment)])
  const busy = await until(
    async () => {
      for (const worker of workers) if (worker.runs().length > 0) return worker
      return null
    },
    { what: 'a run' },
  )
  return { busy, idle: workers.find(worker => worker !== busy) as Daemon }
}

/** Ids of the notices whose analysis is in the latest snapshot. */
async function publishedAnalyses(company: SyncedCompany): Promise<string[]> {
  const rows = await company.query<{ edital_id: string }>(
    `SELECT edital_id FROM editais JOIN analyses USING (edital_id) WHERE analysis_state = 'current' ORDER BY 1`,
  )
  return rows.map(({ edital_id }) => edital_id)
}

function idsBut(total: number, some: readonly string[]): string[] {
  const without = new Set(some)
  return Array.from({ length: total }, (_, index) => idOf(index + 1)).filter(id => !without.has(id))
}
