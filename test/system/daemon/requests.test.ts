import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { openRequests, type RequestNumber, type Taken } from '#jobs/requests.ts'
import { openRedis } from '#test/support/redis.ts'

const PLAIN = { full: false, restart: false }
const FULL = { full: true, restart: false }
const DAY_MS = 24 * 3600_000

/** Requests of acme, in a Redis that can lose them. */
async function openThem() {
  const { url, prefix } = await openRedis()
  const redis = new Redis(url)
  onTestFinished(() => redis.disconnect())
  const requests = openRequests(redis, prefix, () => new Date())
  const keys = () => redis.keys(`${prefix}:*`)
  return {
    ask: async (options: typeof PLAIN) => (await requests.ask('acme', options)).request,
    /** A request that is withdrawn after another one, if any, was made. */
    withdraw: async (options: typeof PLAIN, meanwhile?: typeof PLAIN) => {
      const asked = await requests.ask('acme', options)
      if (meanwhile) await requests.ask('acme', meanwhile)
      await requests.withdraw('acme', asked)
    },
    take: () => requests.take('acme'),
    look: (request: RequestNumber) => requests.look('acme', request),
    end: ({ covers }: Taken) => requests.answer('acme', { skipped: 'as an answer', covers }),
    /** The remaining lifetime of each key in ms; -1: forever. */
    lives: async () => await Promise.all((await keys()).map(key => redis.pttl(key))),
    age: async () => await Promise.all((await keys()).map(key => redis.pexpire(key, 60_000))),
    empty: async () => await redis.unlink(await keys()),
  }
}

test('only a run that started after a request answers it', async () => {
  const requests = await openThem()
  const first = await requests.ask(PLAIN)
  const run = await requests.take()
  const second = await requests.ask(PLAIN)
  expect(await requests.look(first)).toBeNull()
  await requests.end(run)
  expect(await requests.look(first)).toMatchObject({ skipped: 'as an answer' })
  expect(await requests.look(second)).toBeNull()
})

test('an answer does not outlive the request counter: a restarted counter would match it again', async () => {
  const requests = await openThem()
  await requests.ask(PLAIN)
  await requests.age()
  await requests.end(await requests.take())
  expect(Math.min(...(await requests.lives()))).toBeGreaterThan(6 * DAY_MS)
})

test('a run from before Redis lost its data answers no later request', async () => {
  const requests = await openThem()
  for (let times = 0; times < 3; times += 1) await requests.ask(PLAIN)
  const run = await requests.take()
  await requests.empty()
  await requests.end(run)
  const request = await requests.ask(FULL)
  expect(await requests.look(request)).toBeNull()
  await requests.end(run)
  expect(await requests.look(request)).toBeNull()
})

test('a request that Redis lost is forgotten, even if another one now has its number', async () => {
  const requests = await openThem()
  const lost = await requests.ask(FULL)
  await requests.empty()
  expect(await requests.look(lost)).toBe('forgotten')
  await requests.ask(PLAIN)
  expect(await requests.look(lost)).toBe('forgotten')
  await requests.end(await requests.take())
  expect(await requests.look(lost)).toBe('forgotten')
})

test('a withdrawn request leaves every other one as it was', async () => {
  const requests = await openThem()
  const full = async () => (await requests.take()).full?.restart ?? null
  await requests.withdraw(FULL)
  expect(await full()).toBeNull()
  await requests.ask(FULL)
  await requests.withdraw({ full: true, restart: true })
  expect(await full()).toBe(false)
  await requests.withdraw(PLAIN)
  expect(await full()).toBe(false)
  await requests.withdraw(FULL, { full: true, restart: true })
  expect(await full()).toBe(true)
})
