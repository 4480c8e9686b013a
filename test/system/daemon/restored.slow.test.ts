import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openQueues } from '#jobs/queues/queue.ts'
import { createLogger } from '#src/lib/log.ts'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { nextRun, requestSync, startAcme, startIdle, untilIdle } from '#test/support/daemon_runs.ts'
import { anotherHost, segmentsIn, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'

vi.setConfig(DAEMON_TEST)

function openThe({ REDIS_URL: url = '', REDIS_PREFIX: prefix = '' }: Environment) {
  const queues = openQueues({ url, prefix }, createLogger('silent', {}))
  onTestFinished(() => queues.close())
  return queues
}

test('a backup of the log on a new disk is restored with one command: workers take it without another one', async () => {
  const { environment, worker } = await startIdle(notices(1, 12))
  await requestSync(worker, 'acme')
  await nextRun(worker, 'acme')
  await worker.stop()
  const directory = companyDirectory(environment)
  const backup = join(await temporaryDirectory(), 'raw')
  await cp(join(directory, 'raw'), backup, { recursive: true })
  await rm(directory, { recursive: true })
  await mkdir(directory, { recursive: true })
  await cp(backup, join(directory, 'raw'), { recursive: true })

  const { code, stdout, stderr } = await runShared(['restore'], environment)
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^Published /)])
  expect(stderr).toContain('Redis knew another directory of acme; workers accept this one from now on.')
  const next = await startDaemon(environment)
  await requestSync(next, 'acme')
  expect(await nextRun(next, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 0, unchanged: 12 })
  expect(next.lines.filter(({ msg }) => /refused|not the volume/.test(msg))).toEqual([])
})

test('a shared log that is restored from a backup is: what Redis knew of later runs is gone, and nothing else', async () => {
  const { s3, settings } = await startSharedLog()
  const { environment, company } = await startAcme(notices(1, 12), settings)
  const queues = openThe(environment)
  const known = async () => {
    const text = await queues.redis.hget(`${queues.prefix}:states`, 'acme')
    return text && (JSON.parse(text).state.raw_log.segments as number)
  }
  const worker = await startDaemon(environment)
  await nextRun(worker, 'acme', 0)
  await untilIdle(worker)
  const backup = new Map(s3.objects)
  for (const objeto of ['Um', 'Dois']) {
    company.world.update(company.world.ids()[0] as string, { edital: { objeto } })
    await requestSync(worker, 'acme')
    await nextRun(worker, 'acme')
  }
  await untilIdle(worker)
  await worker.stop()
  const later = await known()
  // Nothing is forgotten where nothing is wrong: another host has an empty disk.
  const second = {
    ...(await anotherHost(company)).environment,
    ...environment,
    DATA_DIR: await temporaryDirectory(),
  }
  expect((await runShared(['restore'], second)).code).toBe(0)
  expect(await known()).toBe(later)

  // As docs/operating/recipes.md has it.
  for (const key of [...s3.objects.keys()]) s3.objects.delete(key)
  for (const [key, stored] of backup) if (key.includes('/log/')) s3.objects.set(key, stored)
  const third = { ...environment, DATA_DIR: await temporaryDirectory() }
  const { code, stderr } = await runShared(['restore'], third)
  expect([code, stderr]).toEqual([0, expect.stringContaining('not in the restored log')])
  expect(await known()).toBeNull()
  const next = await startDaemon(third)
  await requestSync(next, 'acme')
  expect(await nextRun(next, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 1 })
  await untilIdle(next)
  expect(await known()).toBe(segmentsIn(s3).length)
  expect(Number(later)).toBeGreaterThan(segmentsIn(s3).length)
})

test('a restore without Redis is partial if one is set, and names what to do', async () => {
  const { environment, worker } = await startIdle(notices(1, 12))
  await worker.stop()
  const { code, stdout, stderr } = await runShared(['restore'], {
    ...environment,
    REDIS_URL: 'redis://127.0.0.1:9',
  })
  expect([code, stdout]).toEqual([3, expect.stringMatching(/^Published /)])
  expect(stderr).toMatch(
    /Redis at 127\.0\.0\.1:9 does not answer .* run `editais restore --company acme` again with Redis/,
  )
  await rm(join(companyDirectory(environment), 'raw'), { recursive: true })
  expect(await runShared(['restore'], environment)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('has no segments, and LOG_URL is not set'),
  })
})
