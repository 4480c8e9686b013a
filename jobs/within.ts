import type { Redis } from 'ioredis'

/** Redis is away, or does not answer in time. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError'

  constructor(how: string) {
    super(`Redis does not answer (${how}).`)
  }
}

/**
 * What is asked of Redis, where somebody waits for the answer: our connection keeps commands for a Redis that
 * is away, so one that is given up here would still be carried out when it is back. So none is given to it.
 * @throws RedisAwayError at once while it is away, and after `ms` when it does not answer.
 */
export async function fromRedis<T>(redis: Redis, ms: number, ask: () => Promise<T>): Promise<T> {
  if (redis.status !== 'ready') throw new RedisAwayError('it is away')
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new RedisAwayError(`nothing within ${ms / 1000} s`)), ms)
  try {
    return await Promise.race([ask(), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const firstTries = new WeakMap<Redis, Promise<void>>()

/** Resolves when the first try to connect has ended, well or not: until then nobody knows whether Redis is away. */
export async function firstTry(redis: Redis, ms: number): Promise<void> {
  const known = firstTries.get(redis)
  if (known) return await known
  const over = new Promise<void>(resolve => {
    if (!['wait', 'connecting', 'connect'].includes(redis.status)) return resolve()
    for (const event of ['ready', 'close', 'end']) redis.once(event, () => resolve())
    setTimeout(resolve, ms).unref()
  })
  firstTries.set(redis, over)
  await over
}
