import { existsSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { queuedRuns, requestSync, runsOf, startAcme } from '#test/support/daemon_runs.ts'
import { leaveFirstRun } from '#test/support/first_run.ts'
import { notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'

vi.setConfig(DAEMON_TEST)

/** Longer than a worker needs to take a job that waits. */
const PATIENCE_MS = 2500

type Ready = { ready: boolean; checks: { directories: { ok: boolean; detail?: string } } }

async function readiness(daemon: Daemon): Promise<Ready & { status: number }> {
  const response = await daemon.ask('/readyz')
  return { ...((await response.json()) as Ready), status: response.status }
}

/** A company whose directory Redis knows, and a DATA_DIR at which another volume is mounted. */
async function mountWrong() {
  const { company, environment } = await startAcme(notices(1, 3))
  await leaveFirstRun(company.world, company.environment)
  const right = environment.DATA_DIR ?? ''
  const mount = join(await temporaryDirectory(), 'mount')
  await mkdir(mount)
  const redis = new Redis(environment.REDIS_URL ?? '')
  onTestFinished(() => redis.disconnect())
  const key = `${environment.REDIS_PREFIX}:directories`
  await redis.hset(key, 'acme', 'the-id-of-the-right-volume')
  return { environment: { ...environment, DATA_DIR: mount }, mount, right, redis, key }
}

test('a worker with the wrong volume is not ready and takes no jobs until the right one is mounted', async () => {
  const { environment, mount, right, redis, key } = await mountWrong()
  const daemon = await startDaemon(environment)
  const problem = `${mount} is not the volume that the workers of this Redis use (acme has no readable id here, and the id the-id-of-the-right-volume there), so this worker takes no jobs of its companies: mount their volume at DATA_DIR, or, if you moved or recreated the data on purpose, run \`redis-cli -u "$REDIS_URL" DEL ${key}\` against REDIS_URL.`
  await daemon.waitFor(({ msg, level }) => level === 'error' && msg === problem)
  expect(await readiness(daemon)).toMatchObject({
    status: 503,
    ready: false,
    checks: { directories: { ok: false, detail: problem } },
  })
  expect((await daemon.ask('/healthz')).status).toBe(200)
  await requestSync(daemon, 'acme')
  await sleep(PATIENCE_MS)
  expect(await queuedRuns(daemon)).toEqual({ active: 0, waiting: 1 })
  // It left nothing on the wrong volume, not even an id.
  expect(existsSync(join(mount, 'acme'))).toBe(false)

  await redis.hset(key, 'acme', 'another')
  await rename(mount, `${mount}.wrong`)
  await rename(right, mount)
  await redis.del(key)
  await daemon.waitFor(({ msg }) => msg === 'The right volume is mounted again.')
  const [run] = await until(() => runsOf(daemon).length > 0 && runsOf(daemon), {
    what: 'the run that waited',
  })
  expect(run).toMatchObject({ status: 'ok', listed: 3 })
  expect((await readiness(daemon)).status).toBe(200)

  // The volume is lost while the worker runs.
  const id = await redis.hget(key, 'acme')
  await rename(mount, right)
  await mkdir(mount)
  await daemon.waitFor(({ msg }) => msg.includes(`no readable id here, and the id ${id} there`))
  expect((await readiness(daemon)).status).toBe(503)
  await requestSync(daemon, 'acme')
  await sleep(PATIENCE_MS)
  expect(runsOf(daemon)).toHaveLength(1)
  expect(existsSync(join(mount, 'acme'))).toBe(false)
  await rename(mount, `${mount}.empty`)
  await rename(right, mount)
  await until(() => runsOf(daemon).length === 2, { what: 'the second run that waited' })
  expect(await redis.hget(key, 'acme')).toBe(id)
  expect(await daemon.stop()).toBe(0)
})

test('of two workers, the one with the right volume takes all jobs', async () => {
  const { environment, right } = await mountWrong()
  const id = 'the-id-of-the-right-volume'
  await writeFile(join(right, 'acme', 'id'), `${id}\n`)
  const wrong = await startDaemon(environment)
  await wrong.waitFor(({ msg }) => msg.includes('is not the volume'))
  const other = await startDaemon({ ...environment, DATA_DIR: right })
  await until(async () => (await readiness(other)).status === 200, { what: 'a ready worker' })
  for (let runs = 1; runs <= 3; runs += 1) {
    await requestSync(wrong, 'acme')
    await until(() => runsOf(other).length === runs, { what: `run ${runs}` })
  }
  expect(runsOf(wrong)).toEqual([])
  expect((await readiness(wrong)).status).toBe(503)
  expect(await wrong.stop()).toBe(0)
})
