import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { openRequests, type RequestNumber, type StoredRequest, type Taken } from '#jobs/queues/requests.ts'
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
    askFull: (restart = false) => requests.ask('acme', { full: true, restart }),
    withdraw: (asked: StoredRequest) => requests.withdraw('acme', asked),
    begin: async ({ full }: Taken) => void (full && (await requests.begun('acme', full))),
    /** What the next run does: nothing beyond the changes, everything, or everything from the start. */
    next: async () => {
      const { full } = await requests.take('acme')
      if (full === null) return 'changes'
      return full.restart ? 'restart' : 'full'
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
  const { ask, askFull, withdraw, next } = await openThem()
  await withdraw(await askFull())
  expect(await next()).toBe('changes')
  await askFull()
  await withdraw(await askFull(true))
  expect(await next()).toBe('full')
  await ask(PLAIN)
  expect(await next()).toBe('full')
  const withdrawn = await askFull()
  await askFull(true)
  await withdraw(withdrawn)
  expect(await next()).toBe('restart')
})

test.each(['in their order', 'the last one first'])(
  'two requests that are both withdrawn, %s, leave nothing',
  async order => {
    const { askFull, withdraw, next, take } = await openThem()
    const both = [await askFull(), await askFull(true)]
    expect(await next()).toBe('restart')
    for (const asked of order === 'in their order' ? both : both.toReversed()) await withdraw(asked)
    expect(await take()).toMatchObject({ full: null })
  },
)

test('a withdrawn request does not bring back one that a run has begun meanwhile', async () => {
  const { askFull, withdraw, take, begin, next } = await openThem()
  await askFull(true)
  const run = await take()
  const refused = await askFull()
  await begin(run)
  expect(await next()).toBe('full')
  await withdraw(refused)
  expect(await next()).toBe('changes')
})

test('however many requests wait, Redis keeps a hundred, and the next run serves all', async () => {
  const { askFull, withdraw, take, begin, next } = await openThem()
  const [oldest] = await Promise.all([askFull(true), ...Array.from({ length: 110 }, () => askFull())])
  const run = await take()
  expect(run.full).toMatchObject({ restart: true, ids: { length: 100 } })
  await withdraw(oldest)
  expect(await next()).toBe('restart')
  await begin(run)
  expect(await next()).toBe('changes')
})
