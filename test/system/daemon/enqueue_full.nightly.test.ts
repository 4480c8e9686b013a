import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { DAEMON_TEST, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { listenTo, nextRun, runsOf, startIdle } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { notices } from '#test/support/notices.ts'
import { type Ended, type Environment, startCommand } from '#test/support/project.ts'
import { canOwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { asked, expectTruth } from '#test/support/truth.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 40
/** Far less than the limit of a test: a command still waiting by then would wait forever. */
const WITHIN_MS = 100_000

/** A request, its time, its output so far and its end. */
function enqueueFull(environment: Environment, ...args: string[]) {
  const started = startCommand(
    ['sync', '--enqueue', '--full', '--json', ...args],
    { ...environment, LOG_LEVEL: 'info' },
    environment.DATA_DIR ?? '',
  )
  return { madeAtMs: Date.now(), output: listenTo(started), ended: within(started.ended) }
}

async function within(ended: Promise<Ended>): Promise<Ended> {
  const late = sleep(WITHIN_MS, null, { ref: false }).then(() => ({ code: null, stdout: '', stderr: 'late' }))
  return await Promise.race([ended, late])
}

function reportOf({ code, stdout, stderr }: Ended): RunReport {
  expect({ code, stderr }).toMatchObject({ code: 0 })
  return JSON.parse(stdout) as RunReport
}

/** A worker with a full run under way for a request, with half of its analyses fetched. */
async function startHeldFull(settings: Environment = {}) {
  const { company, environment, worker } = await startIdle(notices(1, TOTAL), settings)
  company.sandbox.requests.reset()
  const held = holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 })
  const request = enqueueFull(environment)
  await held.reached
  await until(() => request.output().includes('The daemon runs it as job'), { what: 'the run' })
  return { company, environment, worker, held, request }
}

test('sync --enqueue --full ends with the resumed run if its worker is killed', async () => {
  const { company, environment, worker, held, request } = await startHeldFull()
  const [run = 0] = worker.runs()
  await Promise.all([worker.kill(), killProcess(run)])
  held.release()
  const other = await startDaemon(environment)
  const report = reportOf(await request.ended)
  expect(report).toMatchObject({ status: 'ok' })
  expect(runsOf(other).map(({ run_id }) => run_id)).toContain(report.run_id)
  expect(new Set(asked(company, 'analysis')).size).toBe(TOTAL)
  await expectTruth(company)
})

test('… and if its daemon restarts', async () => {
  const { company, environment, worker, held, request } = await startHeldFull()
  expect(await worker.stop()).toBe(0)
  held.release()
  company.sandbox.requests.reset()
  const next = await startDaemon(environment)
  const report = reportOf(await request.ended)
  expect(report).toMatchObject({ status: 'ok', loaded: TOTAL / 2, unchanged: TOTAL / 2 })
  expect(runsOf(next).map(({ run_id }) => run_id)).toContain(report.run_id)
  expect(asked(company, 'analysis')).toHaveLength(TOTAL / 2)
})

test('requests made at the same time all get the result of a run that started after them', async () => {
  const { environment } = await startIdle(notices(1, TOTAL))
  for (let round = 0; round < 2; round += 1) {
    const requests = Array.from({ length: 3 }, () => enqueueFull(environment))
    const reports = (await Promise.all(requests.map(({ ended }) => ended))).map(reportOf)
    expect(reports).toMatchObject(Array(3).fill({ mode: 'full', status: 'ok', loaded: TOTAL }))
    for (const [index, { started_at }] of reports.entries()) {
      expect(Date.parse(started_at)).toBeGreaterThan(requests[index]?.madeAtMs ?? Number.POSITIVE_INFINITY)
    }
  }
})

test('a request made during a full run gets the next one', async () => {
  const { environment, held, request } = await startHeldFull()
  const later = enqueueFull(environment)
  await expectAsked(environment, 2)
  held.release()
  const [first, second] = [reportOf(await request.ended), reportOf(await later.ended)]
  expect([first, second]).toMatchObject([{ mode: 'full' }, { mode: 'full', loaded: TOTAL }])
  expect(Date.parse(second.started_at)).toBeGreaterThanOrEqual(Date.parse(first.finished_at ?? ''))
})

async function expectAsked({ REDIS_URL = '', REDIS_PREFIX }: Environment, times: number): Promise<void> {
  const number = () => withClient(REDIS_URL, client => client.hget(`${REDIS_PREFIX}:requests:acme`, 'number'))
  await until(async () => (await number()) === String(times), { what: `request ${times}` })
}

test('--wait ends it after the given seconds, even while another run is under way', async () => {
  const { environment, held } = await startHeldFull()
  // Only after this may the run go on.
  const { code, stdout, stderr } = await enqueueFull(environment, '--wait', '2').ended
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain('No run of acme began within 2 s. The daemon keeps the request; see its log.')
  held.release()
})

test('--wait ends it even if its own run has started', async () => {
  const { company, environment, worker } = await startIdle(notices(1, TOTAL))
  const held = holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 })
  const request = enqueueFull(environment, '--wait', '8')
  await held.reached
  const { code, stderr } = await request.ended
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /The run of acme \(job \d+\) did not end within 8 s\. It continues in the daemon/,
    ),
  })
  const { length } = worker.lines
  held.release()
  expect(await nextRun(worker, 'acme', length)).toMatchObject({ mode: 'full', loaded: TOTAL })
})

test.skipIf(!canOwnRedis)('a request that Redis lost is submitted again', async () => {
  const redis = await startOwnRedis()
  const settings = { REDIS_URL: redis.url, REDIS_PREFIX: 'lost' }
  const { worker, held, request } = await startHeldFull(settings)
  await withClient(redis.url, client => client.flushall())
  await until(() => request.output().includes('sending it again'), { what: 'the request again' })
  held.release()
  const report = reportOf(await request.ended)
  expect(report).toMatchObject({ status: 'ok' })
  expect(runsOf(worker).map(({ run_id }) => run_id)).toContain(report.run_id)
})
