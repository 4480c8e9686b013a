import type { Redis } from 'ioredis'
import { isOfRedis } from '../redis_problem.ts'
import { firstTry, fromRedis, RedisAwayError } from '../within.ts'
import type { Alert } from './alert.ts'
import { fieldOf, type Key, type Outbox } from './outbox.ts'

/** Alerts are raised after a run or by an inspection; neither should wait for long. */
const REDIS_WITHIN_MS = 5000

type Entry = { readonly key: Key; readonly alert: Alert | null }

/**
 * The alerts that all workers share, and without Redis those that this worker knows. It continues from the last state
 * that it saw, so known alerts are not sent again. Each worker then sends its own, as none knows those of the others.
 * Changes made meanwhile are stored when Redis is back.
 */
export function openSpareOutbox(redis: Redis, shared: Outbox): Outbox {
  const copy = new Map<string, Entry>()
  const changed = new Set<string>()
  /** What this worker is sending: with or without Redis, it never sends the same alert twice at a time. */
  const sending = new Set<string>()

  async function handBack(): Promise<void> {
    for (const field of [...changed]) {
      const entry = copy.get(field)
      if (entry) await shared.change(entry.key, () => entry.alert)
      changed.delete(field)
    }
  }

  async function either<T>(inRedis: () => Promise<T>, inCopy: () => T): Promise<T> {
    // We closed the connection, so there is nothing to continue.
    if (redis.status === 'end') return await inRedis()
    await firstTry(redis, REDIS_WITHIN_MS)
    try {
      return await fromRedis(redis, REDIS_WITHIN_MS, async () => {
        await handBack()
        return await inRedis()
      })
    } catch (error) {
      if (error instanceof RedisAwayError || isOfRedis(error)) return inCopy()
      throw error
    }
  }

  const remember = (key: Key, alert: Alert | null) => copy.set(fieldOf(key), { key, alert })
  return {
    all: () =>
      either(
        async () => {
          const alerts = await shared.all()
          copy.clear()
          for (const alert of alerts) remember(alert, alert)
          return alerts
        },
        () => [...copy.values()].flatMap(({ alert }) => alert ?? []),
      ),
    change: (key, next) =>
      either(
        async () => {
          const change = await shared.change(key, next)
          remember(key, change.after)
          return change
        },
        () => {
          const before = copy.get(fieldOf(key))?.alert ?? null
          const after = next(before)
          if (after !== before) {
            remember(key, after)
            changed.add(fieldOf(key))
          }
          return { before, after }
        },
      ),
    remove: alerts =>
      either(
        () => shared.remove(alerts),
        () => {
          for (const alert of alerts) {
            remember(alert, null)
            changed.add(fieldOf(alert))
          }
        },
      ),
    async claim(key, token) {
      const field = fieldOf(key)
      if (sending.has(field)) return false
      sending.add(field)
      let claimed = false
      try {
        // Without Redis, no other worker could be kept from sending.
        claimed = await either(
          () => shared.claim(key, token),
          () => true,
        )
        return claimed
      } finally {
        if (!claimed) sending.delete(field)
      }
    },
    release(key, token) {
      sending.delete(fieldOf(key))
      return either(
        () => shared.release(key, token),
        () => {},
      )
    },
  }
}
