import { expect, test } from 'vitest'
import { errorOf, SYNC, serveWorker } from '#test/support/http.ts'
import { canOwnRedis, scanAll, startOwnRedis, withClient } from '#test/support/redis.ts'

const FULL = '{"full": true}'

/** A worker whose user may not use these commands, in a Redis of its own. */
async function withoutRights(...commands: readonly string[]) {
  const missing = commands.map(command => `-${command}`)
  const redis = await startOwnRedis({
    args: ['--user', 'worker', 'on', '>pw_1c8e', '~*', '&*', '+@all', ...missing],
  })
  const url = redis.url.replace('//', '//worker:pw_1c8e@')
  const worker = await serveWorker({ redisUrl: url })
  const { prefix } = worker.queues
  return {
    worker,
    /** What the next run would do: null if nothing was asked of it. */
    full: async () => await withClient(redis.url, client => client.hget(`${prefix}:full`, 'acme')),
    runs: async () => (await scanAll(redis.url, `${prefix}:runs:wait`)).length,
    allow: async (command: string) =>
      void (await withClient(redis.url, client => client.acl('SETUSER', 'worker', `+${command}`))),
  }
}

test.skipIf(!canOwnRedis)('a full run that Redis refuses does not make the next run a full one', async () => {
  // BullMQ stores a job with it.
  const { worker, full, runs, allow } = await withoutRights('hmset')
  const refused = await worker.post(SYNC, FULL)
  expect(refused.status).toBe(503)
  expect((await errorOf(refused)).detail).toMatch(
    /^Redis rejected the command \(NOPERM.*\): .*\. No run was requested\. Retry when Redis works again\.$/,
  )
  expect([await full(), await runs()]).toEqual([null, 0])

  await allow('hmset')
  expect((await worker.post(SYNC, FULL)).status).toBe(202)
  expect(await full()).toContain('"restart":false')
})

test.skipIf(!canOwnRedis)('if the request cannot be withdrawn either, the answer says so', async () => {
  const { worker, full, runs } = await withoutRights('hmset', 'hdel')
  const refused = await worker.post(SYNC, FULL)
  expect(refused.status).toBe(503)
  expect((await errorOf(refused)).detail).toContain(
    'No run was requested, but the next one fetches everything again. Retry',
  )
  expect(await full()).not.toBeNull()
  expect(await runs()).toBe(0)
})
