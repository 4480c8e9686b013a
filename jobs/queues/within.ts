import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisClient } from './redis.ts'

/** Redis is away, or does not answer in time. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError'

  constructor(how: string) {
    super(`Redis does not answer (${how}).`)
  }
}

/**
 * Asks Redis for a caller that waits for the answer. Our connection keeps commands while Redis is away, so a command
 * that is given up here would still run when Redis is back. So none is sent while it is away.
 * @throws RedisAwayError at once if Redis is away, and after `ms` if it does not answer.
 */
export async function fromRedis<T>(redis: RedisClient, ms: number, ask: () => Promise<T>): Promise<T> {
  if (redis.status !== 'ready') throw new RedisAwayError('not connected')
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new RedisAwayError(`nothing within ${ms / 1000} s`)), ms)
  try {
    return await Promise.race([ask(), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const firstTries = new WeakMap<RedisClient, Promise<void>>()

/** Resolves when the first attempt to connect has ended, or after `ms`: until then it is unknown if Redis is away. */
export async function firstTry(redis: RedisClient, ms: number): Promise<void> {
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

/** Repeats the work, with a pause after each time, until the signal is aborted. */
export async function every(
  intervalMs: number,
  work: () => Promise<void>,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(onError)
    await sleep(intervalMs, undefined, { signal }).catch(() => {})
  }
}
