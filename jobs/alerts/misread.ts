import type { RedisClient } from '../redis_client.ts'
import { GONE_AFTER_MS } from './seen.ts'

/** A part of the companies' file that cannot be used: a company's entry, or null for the file itself. */
export type Misread = string | null

type Note = { readonly at: string; readonly misread: readonly Misread[] }

/** Of each worker: what it cannot use of its companies' file, and whether a volume of it is wrong (null). */
export type Topic = 'misread' | 'wrong_volumes'

/**
 * Records in Redis what this worker cannot use. Each worker may have its own file and volume, and one with correct ones
 * must not clear the alert of another.
 * @returns what any worker, including this one, recently could not use.
 */
export async function noteMisread(
  { redis, prefix, topic }: { redis: RedisClient; prefix: string; topic: Topic },
  { worker, misread, now }: { worker: string; misread: readonly Misread[]; now: Date },
): Promise<ReadonlySet<Misread>> {
  const key = `${prefix}:${topic}`
  const note: Note = { at: now.toISOString(), misread }
  if (misread.length > 0) await redis.hset(key, worker, JSON.stringify(note))
  const all = new Set<Misread>()
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
