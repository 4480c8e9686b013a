import type { RedisClient } from '#jobs/queues/redis.ts'
import { GONE_AFTER_MS } from './seen.ts'

/** The part that a worker cannot use or serve: a company; null for its whole file, volume, clock or store. */
export type WrongPart = string | null

/** The subjects that a worker reports about; with the name of its hash in Redis. */
const HASHES = {
  file: 'misread',
  volumes: 'wrong_volumes',
  clocks: 'wrong_clocks',
  stores: 'unusable_stores',
  served: 'served_behind',
} as const

type Note = { readonly at: string; readonly misread: readonly WrongPart[] }

/**
 * Records in Redis what this worker cannot use. Each worker may have its own file and volumes, and one with correct ones
 * must not clear the alert of another.
 * @param now by Redis's clock: that of a worker may be wrong.
 * @returns what any worker, including this one, recently could not use.
 */
export async function noteWrongParts(
  { redis, prefix, of }: { redis: RedisClient; prefix: string; of: keyof typeof HASHES },
  { worker, wrong, now }: { worker: string; wrong: readonly WrongPart[]; now: Date },
): Promise<ReadonlySet<WrongPart>> {
  const key = `${prefix}:${HASHES[of]}`
  const note: Note = { at: now.toISOString(), misread: wrong }
  if (wrong.length > 0) await redis.hset(key, worker, JSON.stringify(note))
  const all = new Set<WrongPart>()
  const gone: string[] = []
  for (const [who, text] of Object.entries(await redis.hgetall(key))) {
    const { at, misread: theirs } = who === worker ? note : (JSON.parse(text) as Note)
    // A worker that died cannot record that its file was fixed.
    const isRecent = now.getTime() - Date.parse(at) <= GONE_AFTER_MS
    if (isRecent && theirs.length > 0) for (const what of theirs) all.add(what)
    else gone.push(who)
  }
  if (gone.length > 0) await redis.hdel(key, ...gone)
  return all
}
