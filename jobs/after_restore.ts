import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import type { LogPosition } from '#src/core/company/state.ts'
import { getMessage } from '#src/lib/errors.ts'
import { explainRedisRefusal } from '#src/lib/redis_refusal.ts'
import { type Company, recordDirectory } from './queues/company_registry.ts'
import { forgetLaterRuns } from './queues/known_state.ts'
import { askRedis, awaitFirstTry, connectRedis } from './queues/redis.ts'
import { isRefusal } from './queues/redis_problem.ts'

const WITHIN_MS = 5000

export type Restored = Pick<Company, 'slug' | 'paths' | 'settings'> & {
  /** How far the restored log goes; null if its name is not known. */
  readonly end: LogPosition | null
}

/** The entries removed from Redis, as sentences; or why it could not be used. */
export type Forgotten = { readonly done: readonly string[]; readonly problem: string | null }

/**
 * Makes Redis forget what contradicts a restored company: another directory, for which workers would refuse this one, and runs
 * that the restored log does not have, which workers would believe to be the last ones. Never throws.
 */
export async function forgetBefore(
  settings: RedisSettings,
  { end, ...company }: Restored,
  log: Logger,
): Promise<Forgotten> {
  const { prefix } = settings
  // The result says what is wrong with Redis.
  const { redis, problem, end: endConnection } = connectRedis(settings, log.child({}, { level: 'silent' }))
  const shared = { redis, prefix }
  const { slug } = company
  try {
    await awaitFirstTry(redis, WITHIN_MS)
    const done = await askRedis(redis, WITHIN_MS, async () => [
      ...((await recordDirectory(shared, company))
        ? [`Redis knew another directory of ${slug}; workers accept this one from now on.`]
        : []),
      ...((await forgetLaterRuns(shared, slug, end))
        ? [`Redis no longer has the state of runs of ${slug} that are not in the restored log.`]
        : []),
    ])
    return { done, problem: null }
  } catch (error) {
    const why = isRefusal(error)
      ? explainRedisRefusal(getMessage(error))
      : (problem()?.sentence ?? getMessage(error))
    return { done: [], problem: why }
  } finally {
    endConnection()
    redis.disconnect()
  }
}
