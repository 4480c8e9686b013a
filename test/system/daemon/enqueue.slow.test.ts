import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { listenTo, nextRun, runsOf, startAcme, untilIdle } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type Environment, runCommand, startCommand } from '#test/support/project.ts'
import { startProxy } from '#test/support/redis.ts'
import { runShared } from '#test/support/shared.ts'
import type { SyncedCompany } from '#test/support/synced.ts'

vi.setConfig(DAEMON_TEST)

const TOTAL = 40

test('sync --enqueue submits a request, follows its run and ends like it; Ctrl-C leaves it to the worker', async () => {
  const { company, environment } = await startAcme(notices(1, TOTAL))
  const words = ['sync', '--enqueue', '--json', '--wait', '20']
  const enqueue = async (...args: string[]) => await runCommand([...words, ...args], environment)
  const enqueueShared = async (...args: string[]) => await runShared([...words, ...args], environment)
  const [alone, usage, noRedis] = await Promise.all([
    enqueue('--wait', '3'),
    enqueueShared('--id', idOf(1)),
    runCommand(['sync', '--enqueue'], { ...environment, REDIS_URL: 'redis://127.0.0.1:9' }),
  ])
  expect(alone).toMatchObject({ code: 1, stdout: '' })
  expect(alone.stderr).toContain(
    'No worker is running. The request waits until one is started (editais start).',
  )
  expect(alone.stderr).toContain('No run of acme began within 3 s. The daemon keeps the request')
  expect(usage).toMatchObject({ code: 2, stdout: '' })
  expect(usage.stderr).toContain('--enqueue can be used only with --full and --restart')
  expect(noRedis).toMatchObject({ code: 1, stdout: '' })
  expect(noRedis.stderr).toContain(
    'Redis at 127.0.0.1:9 does not answer (ECONNREFUSED). Start it, or set REDIS_URL. No run was requested.',
  )
  expect(noRedis.stderr.match(/does not answer/g)).toHaveLength(1)
  expect(noRedis.stderr).not.toContain('    at ')

  const worker = await startDaemon(environment)
  await nextRun(worker, 'acme', 0)
  await untilIdle(worker)
  const plain = await enqueue()
  const full = await enqueueShared('--full')
  await expectNothingDone(environment)
  await expectLeft(worker, company, environment)
  company.sandbox.revoke(company.environment.API_KEY ?? '')
  const refused = await enqueueShared()
  const reports = [plain, full, refused].map(({ stdout }) => JSON.parse(stdout) as RunReport)
  expect([plain, full, refused].map(({ code }) => code)).toEqual([0, 0, 1])
  expect(reports).toMatchObject([
    { company: 'acme', mode: 'incremental', status: 'ok', unchanged: TOTAL },
    { company: 'acme', mode: 'full', status: 'ok', loaded: TOTAL },
    { company: 'acme', status: 'failed', error: expect.stringContaining('API key refused (401)') },
  ])
  // The worker ran them.
  const ids = runsOf(worker).map(({ run_id }) => run_id)
  expect(reports.map(({ run_id }) => ids.includes(run_id))).toEqual([true, true, true])
})

/** The command also ends if its job is over at once. */
async function expectNothingDone(environment: Environment): Promise<void> {
  const { code, stderr } = await within(
    20_000,
    runCommand(['sync', '--enqueue'], { ...environment, COMPANY: 'zebra' }),
  )
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('The daemon skipped the run: zebra is not configured.'),
  })
}

/** Ctrl-C ends the command, and leaves the request to the worker. */
async function expectLeft(worker: Daemon, company: SyncedCompany, environment: Environment): Promise<void> {
  await untilIdle(worker)
  const held = holdAfter(company.sandbox, 'list', { passing: 0, waiting: 1 })
  const { child, ended } = startCommand(
    ['sync', '--enqueue', '--full'],
    environment,
    environment.DATA_DIR ?? '',
  )
  await held.reached
  child.kill('SIGINT')
  const { code, stderr } = await ended
  expect(code).toBe(130)
  expect(stderr).toContain('The daemon keeps the request')
  held.release()
  expect(await nextRun(worker, 'acme')).toMatchObject({ mode: 'full', loaded: TOTAL })
  await untilIdle(worker)
}

test('Ctrl-C ends sync --enqueue even while Redis is down', async () => {
  const { environment } = await startAcme(notices(1, TOTAL))
  const proxy = await startProxy(environment.REDIS_URL ?? '')
  const settings = { ...environment, REDIS_URL: proxy.url }
  const following = startCommand(['sync', '--enqueue'], settings, environment.DATA_DIR ?? '')
  const output = listenTo(following)
  await until(() => output().includes('The request waits until one is started'), { what: 'the request' })
  await proxy.cut()
  await until(() => output().includes('does not answer'), { what: 'a line about Redis' })
  following.child.kill('SIGINT')
  const { code } = await within(10_000, following.ended)
  expect(code).toBe(130)
})

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = sleep(ms, null, { ref: false }).then(() => {
    throw new Error(`not within ${ms / 1000} s`)
  })
  return await Promise.race([promise, late])
}
