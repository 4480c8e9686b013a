import type { ReceiverName } from '#config/alerts.ts'
import { askRedis, awaitFirstTry, RedisAwayError, type RedisClient } from '#jobs/queues/redis.ts'
import { isOfRedis } from '#jobs/queues/redis_problem.ts'
import { type Alert, nameSubject, readAlert } from './alert.ts'
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

type Key = { readonly name: AlertName; readonly company: string | null; readonly subject?: string }

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
  const nameClaim = (place: Place) => `${hash}:sending:${outboxKey(place)}`
  return {
    async all() {
      return Object.values(await redis.hgetall(hash)).map(text => readAlert(text))
    },
    async change(key, next) {
      const field = nameField(key)
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
      if (alerts.length > 0) await redis.hdel(hash, ...alerts.map(nameField))
    },
    async claim(place, token) {
      return (await redis.set(nameClaim(place), token, 'PX', CLAIM_MS, 'NX')) !== null
    },
    async release(place, token) {
      await redis.eval(RELEASE, 1, nameClaim(place), token)
    },
  }
}

function nameField(key: Key): string {
  return `${key.name}:${nameSubject(key)}`
}

function outboxKey({ alert, to }: Place): string {
  return `${to}:${nameField(alert)}`
}

/** Alerts are raised after a run or by an inspection; neither should wait for long. */
const REDIS_WITHIN_MS = 5000

type Change = Awaited<ReturnType<Outbox['change']>>

type Entry = { readonly key: Key; readonly alert: Alert | null }

/**
 * Opens the alerts that all workers share, and without Redis those that this worker knows. It continues from the last state that
 * it saw, so known alerts are not sent again. Each worker then sends its own, as none knows those of the others. Changes made
 * meanwhile are stored when Redis is back.
 */
export function openSpareOutbox(redis: RedisClient, shared: Outbox): Outbox {
  const copy = new OutboxCopy()
  const either = <T>(inRedis: () => Promise<T>, inCopy: () => T) =>
    withRedis(redis, () => copy.handTo(shared).then(inRedis), inCopy)
  return {
    all: () =>
      either(
        async () => {
          const alerts = await shared.all()
          copy.replace(alerts)
          return alerts
        },
        () => copy.all(),
      ),
    change: (key, next) =>
      either(
        async () => {
          const change = await shared.change(key, next)
          copy.remember(key, change.after)
          return change
        },
        () => copy.change(key, next),
      ),
    remove: alerts =>
      either(
        () => shared.remove(alerts),
        () => copy.remove(alerts),
      ),
    ...onceAtATime({
      claim: (place, token) =>
        either(
          () => shared.claim(place, token),
          // Without Redis, no other worker could be kept from sending.
          () => true,
        ),
      release: (place, token) =>
        either(
          () => shared.release(place, token),
          () => {},
        ),
    }),
  }
}

/** The alerts as this worker saw them last, with its own changes that are not in Redis yet. */
class OutboxCopy {
  readonly #entries = new Map<string, Entry>()
  readonly #changed = new Set<string>()

  all(): Alert[] {
    return [...this.#entries.values()].flatMap(({ alert }) => alert ?? [])
  }

  /** Replaces all entries: these are all alerts that Redis has. */
  replace(alerts: readonly Alert[]): void {
    this.#entries.clear()
    for (const alert of alerts) this.remember(alert, alert)
  }

  /** Stores what Redis has for a key; null if it has no alert. */
  remember(key: Key, alert: Alert | null): void {
    this.#entries.set(nameField(key), { key, alert })
  }

  change(key: Key, next: (before: Alert | null) => Alert | null): Change {
    const before = this.#entries.get(nameField(key))?.alert ?? null
    const after = next(before)
    if (after !== before) this.#set(key, after)
    return { before, after }
  }

  remove(alerts: readonly Alert[]): void {
    for (const alert of alerts) this.#set(alert, null)
  }

  /** Stores the changes that are not in Redis yet. */
  async handTo(shared: Outbox): Promise<void> {
    for (const field of [...this.#changed]) {
      const entry = this.#entries.get(field)
      if (entry) await shared.change(entry.key, () => entry.alert)
      this.#changed.delete(field)
    }
  }

  #set(key: Key, alert: Alert | null): void {
    this.remember(key, alert)
    this.#changed.add(nameField(key))
  }
}

async function withRedis<T>(redis: RedisClient, inRedis: () => Promise<T>, inCopy: () => T): Promise<T> {
  // We closed the connection, so there is nothing to continue.
  if (redis.status === 'end') return await inRedis()
  await awaitFirstTry(redis, REDIS_WITHIN_MS)
  try {
    return await askRedis(redis, REDIS_WITHIN_MS, inRedis)
  } catch (error) {
    if (error instanceof RedisAwayError || isOfRedis(error)) return inCopy()
    throw error
  }
}

/** Wraps `claim` and `release` so that this worker never sends an alert twice at the same time, with or without Redis. */
function onceAtATime({
  claim,
  release,
}: Pick<Outbox, 'claim' | 'release'>): Pick<Outbox, 'claim' | 'release'> {
  const sending = new Set<string>()
  return {
    async claim(place, token) {
      const name = outboxKey(place)
      if (sending.has(name)) return false
      sending.add(name)
      let claimed = false
      try {
        claimed = await claim(place, token)
        return claimed
      } finally {
        if (!claimed) sending.delete(name)
      }
    },
    release(place, token) {
      sending.delete(outboxKey(place))
      return release(place, token)
    },
  }
}
