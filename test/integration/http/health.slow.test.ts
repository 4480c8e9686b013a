import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkReadiness } from '#jobs/http/health.ts'
import { errorOf, SYNC, serveWorker, type Worker } from '#test/support/http.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, openRedis, startOwnRedis, startProxy, withClient } from '#test/support/redis.ts'

const CHECKS = ['redis', 'directories', 'configuration', 'served', 'clock', 'shared_log']
const WELL = Object.fromEntries(CHECKS.map(name => [name, { ok: true }]))

test('/healthz needs nothing, /readyz needs everything', async () => {
  const { url, configure } = await serveWorker()
  expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ alive: true })
  const ready = await fetch(`${url}/readyz`)
  expect(ready.status).toBe(200)
  expect(await ready.json()).toEqual({
    ready: true,
    checks: WELL,
  })
  await configure([])
  const without = await fetch(`${url}/readyz`)
  expect(without.status).toBe(503)
  expect(await without.json()).toMatchObject({
    ready: false,
    checks: { configuration: { ok: false, detail: expect.stringContaining('No company is configured') } },
  })
})

test("an unusable companies' file or data directory makes a worker not ready", async () => {
  const directory = await temporaryDirectory()
  const file = join(directory, 'file')
  await writeFile(file, '')
  for (const [dataDir, why] of [
    [file, 'is not a directory'],
    [join(file, 'below'), 'is not writable (ENOTDIR)'],
  ] as const) {
    const { url, configure } = await serveWorker({ dataDir })
    await configure(['ACME!'])
    const response = await fetch(`${url}/readyz`)
    expect(response.status).toBe(503)
    expect(await response.json()).toEqual({
      ready: false,
      checks: {
        ...WELL,
        directories: { ok: false, detail: expect.stringContaining(`${dataDir} ${why}`) },
        configuration: { ok: false, detail: expect.stringContaining('ACME!') },
      },
    })
  }
})

test('with under 1 % of the disk free, a worker is not ready', async () => {
  const { registry, queues } = await serveWorker()
  const standby = { clocks: [], stores: [] }
  const withFree = async (bavail: number, blocks = 1000) =>
    await checkReadiness({ registry, queues, standby, measureSpace: async () => ({ blocks, bavail }) })
  expect(await withFree(9)).toMatchObject({
    ready: false,
    checks: { directories: { ok: false, detail: expect.stringContaining('is full: under 1 % is free') } },
  })
  expect(await withFree(10)).toMatchObject({ ready: true })
  // A file system may not report its size.
  expect(await withFree(0, 0)).toMatchObject({ ready: true })
})

async function expectAway({ url, ask, post }: Worker, withinMs: number): Promise<void> {
  const started = Date.now()
  const [alive, ready, metrics, sync, board] = await Promise.all([
    fetch(`${url}/healthz`),
    fetch(`${url}/readyz`),
    fetch(`${url}/metrics`),
    post(SYNC),
    ask('/queues/api/queues'),
  ])
  expect(Date.now() - started).toBeLessThan(withinMs)
  expect([alive, ready, metrics, sync, board].map(({ status }) => status)).toEqual([200, 503, 200, 503, 503])
  expect(await ready.json()).toMatchObject({
    checks: { redis: { ok: false, detail: expect.stringMatching(/^Redis (at \S+ )?does not answer/) } },
  })
  expect((await errorOf(sync)).detail).toContain('Redis does not answer')
  expect((await errorOf(board)).error).toBe('unavailable')
  const text = await metrics.text()
  expect(text).toContain('editais_runs_total{')
  expect(text).not.toContain('editais_queue_jobs{')
}

test('while Redis is down no request waits for it, and nothing is done late once it is back', async () => {
  const proxy = await startProxy((await openRedis()).url)
  const worker = await serveWorker({ redisUrl: proxy.url })
  await proxy.cut()
  await expect.poll(() => worker.queues.redis.status).not.toBe('ready')
  await expectAway(worker, 4000)
  await proxy.mend()
  await expect.poll(async () => (await worker.ask('/readyz')).status, { timeout: 20_000 }).toBe(200)
  expect(await worker.queues.runs.count()).toBe(0)
  expect((await worker.post(SYNC)).status).toBe(202)
  expect(await worker.queues.runs.count()).toBe(1)
})

test.skipIf(!canOwnRedis)('no request waits for a Redis that hangs either', async () => {
  const { url } = await startOwnRedis()
  const worker = await serveWorker({ redisUrl: url })
  await withClient(url, client => client.client('PAUSE', 8000, 'ALL'))
  await expectAway(worker, 7500)
  await worker.queues.redis.ping()
  expect(await worker.queues.runs.count()).toBe(0)
})
