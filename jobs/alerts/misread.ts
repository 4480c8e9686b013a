import type { Redis } from 'ioredis'
import { GONE_AFTER_MS } from './seen.ts'

/** What of the companies' file cannot be used: a company's entry, or null for the file itself. */
export type Misread = string | null

type Note = { readonly at: string; readonly misread: readonly Misread[] }

/**
 * Notes in Redis what of its file this worker cannot use: a worker may have a file of its own, and one whose file is right
 * must not take another's for mended.
 * @returns what some worker could not use lately, this one included.
 */
export async function noteMisread(
  redis: Redis,
  prefix: string,
  { worker, misread, now }: { worker: string; misread: readonly Misread[]; now: Date },
): Promise<ReadonlySet<Misread>> {
  const key = `${prefix}:misread`
  const note: Note = { at: now.toISOString(), misread }
  if (misread.length > 0) await redis.hset(key, worker, JSON.stringify(note))
  const all = new Set<Misread>()
  const gone: string[] = []
  for (const [who, text] of Object.entries(await redis.hgetall(key))) {
    const { at, misread: theirs } = who === worker ? note : (JSON.parse(text) as Note)
    // A worker that died cannot note that its file was mended.
    const isRecent = now.getTime() - Date.parse(at) <= GONE_AFTER_MS
    if (isRecent && theirs.length > 0) for (const what of theirs) all.add(what)
    else gone.push(who)
  }
  if (gone.length > 0) await redis.hdel(key, ...gone)
  return all
}
