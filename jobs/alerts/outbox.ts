import type { ReceiverName } from '#config/alerts.ts'
import type { RedisClient } from '#jobs/queues/redis_client.ts'
import { type Alert, readAlert, subjectOf } from './alert.ts'
import type { AlertName } from './table.ts'

/** A worker that dies while sending leaves its claim. This is several times the longest time that sending takes. */
const CLAIM_MS = 30_000

/** Compare and set, so that no change is lost: if another worker wrote after our read, we read again. */
const REPLACE = `
  if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
  if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
  else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
  return 1`
const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`

export type Key = { readonly name: AlertName; readonly company: string | null; readonly subject?: string }

/** An alert, and a receiver of it. */
type Place = { readonly alert: Key; readonly to: ReceiverName }

/** The alerts that all workers share: a hash in Redis. */
export type Outbox = {
  all(): Promise<Alert[]>
  /** Replaces an alert by what `next` makes of it (null: no alert), atomically among all workers. */
  change(
    key: Key,
    next: (before: Alert | null) => Alert | null,
  ): Promise<{ readonly before: Alert | null; readonly after: Alert | null }>
  remove(alerts: readonly Alert[]): Promise<void>
  /** Claims an alert for sending. False if another sender sends it there; a claim expires if its holder dies. */
  claim(place: Place, token: string): Promise<boolean>
  release(place: Place, token: string): Promise<void>
}

export function openOutbox(redis: RedisClient, prefix: string): Outbox {
  const hash = `${prefix}:alerts`
  const claimOf = (place: Place) => `${hash}:sending:${outboxKey(place)}`
  return {
    async all() {
      return Object.values(await redis.hgetall(hash)).map(text => readAlert(text))
    },
    async change(key, next) {
      const field = fieldOf(key)
      for (;;) {
        const known = await redis.hget(hash, field)
        const before = known === null ? null : readAlert(known)
        const after = next(before)
        if (after === before) return { before, after }
        const text = after === null ? '' : JSON.stringify(after)
        if ((await redis.eval(REPLACE, 1, hash, field, known ?? '', text)) === 1) return { before, after }
      }
    },
    async remove(alerts) {
      if (alerts.length > 0) await redis.hdel(hash, ...alerts.map(fieldOf))
    },
    async claim(place, token) {
      return (await redis.set(claimOf(place), token, 'PX', CLAIM_MS, 'NX')) !== null
    },
    async release(place, token) {
      await redis.eval(RELEASE, 1, claimOf(place), token)
    },
  }
}

export function fieldOf(key: Key): string {
  return `${key.name}:${subjectOf(key)}`
}

export function outboxKey({ alert, to }: Place): string {
  return `${to}:${fieldOf(alert)}`
}
