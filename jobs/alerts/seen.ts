import type { Redis } from 'ioredis'

/** Workers read a changed configuration at different moments; what none of them has seen for so long is gone. */
export const GONE_AFTER_MS = 2 * 60_000

type Span = { readonly first: string; readonly last: string }

/** Since when the workers know what they are configured for: companies by slug, directories by path. */
export type Seen = {
  /** Null for what no worker has seen lately. */
  since(what: string): Date | null
}

/** Notes in Redis, for all workers, what this one is configured for, and drops what none is any more. */
export async function noteSeen(
  redis: Redis,
  prefix: string,
  { present, now }: { present: readonly string[]; now: Date },
): Promise<Seen> {
  const key = `${prefix}:seen`
  const spans = new Map<string, Span>()
  const gone: string[] = []
  for (const [what, text] of Object.entries(await redis.hgetall(key))) {
    const span = JSON.parse(text) as Span
    const isRecent = now.getTime() - Date.parse(span.last) <= GONE_AFTER_MS
    // What is present stays, also when nobody could look for a while.
    if (isRecent || present.includes(what)) spans.set(what, span)
    else gone.push(what)
  }
  const at = now.toISOString()
  for (const what of present) spans.set(what, { first: spans.get(what)?.first ?? at, last: at })
  if (gone.length > 0) await redis.hdel(key, ...gone)
  const noted = present.map(what => [what, JSON.stringify(spans.get(what))] as const)
  if (noted.length > 0) await redis.hset(key, Object.fromEntries(noted))
  return {
    since(what) {
      const span = spans.get(what)
      return span ? new Date(span.first) : null
    },
  }
}
