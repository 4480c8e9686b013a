import type { RedisClient } from '#jobs/queues/redis.ts'

/** Workers read a changed configuration at different times; what none of them has seen for this long is gone. */
export const GONE_AFTER_MS = 2 * 60_000

type Span = {
  readonly first: string
  readonly last: string
  /** Since when a worker was present without a pause. */
  readonly attended: string
}

/** Since when the workers have known what is configured, without a pause: companies by slug, directories by path. */
export type Seen = {
  /** Returns since when the workers have known this; null if none has seen it recently. */
  since(what: string): Date | null
}

/** Always present: if it is missing, Redis has lost its data, or is new. */
const WORKERS = '*'

/** The presence that a worker records: what it is configured for, and since when it has been running. */
type Present = {
  readonly present: readonly string[]
  readonly startedAt: Date
  readonly now: Date
  /** Whether the time in between, without a worker, counts as a pause. */
  readonly isPause: (what: string, from: Date, until: Date) => boolean
}

/** Records in Redis, for all workers, what this one is configured for, and drops what no worker is any more. */
export async function noteSeen(redis: RedisClient, prefix: string, seen: Present): Promise<Seen> {
  const { now } = seen
  const present = [WORKERS, ...seen.present]
  const key = `${prefix}:seen`
  const spans = new Map<string, Span>()
  const gone: string[] = []
  for (const [what, text] of Object.entries(await redis.hgetall(key))) {
    const span = JSON.parse(text) as Span
    const isRecent = now.getTime() - Date.parse(span.last) <= GONE_AFTER_MS
    // What is present stays, even if no worker could record it for a while.
    if (isRecent || present.includes(what)) spans.set(what, span)
    else gone.push(what)
  }
  const lost = !spans.has(WORKERS)
  for (const what of present) spans.set(what, extended(spans.get(what), { ...seen, what, lost }))
  if (gone.length > 0) await redis.hdel(key, ...gone)
  const noted = present.map(what => [what, JSON.stringify(spans.get(what))] as const)
  await redis.hset(key, Object.fromEntries(noted))
  return {
    since(what) {
      const span = spans.get(what)
      if (!span) return null
      const { first, attended } = span
      return new Date(first > attended ? first : attended)
    },
  }
}

/** Extends the span to now. A time later than now comes from a clock that was ahead; ISO times sort as text. */
function extended(
  before: Span | undefined,
  { what, lost, startedAt, now, isPause }: Present & { what: string; lost: boolean },
): Span {
  const at = now.toISOString()
  const began = earliest(startedAt.toISOString(), at)
  // What existed before Redis lost its data is not new.
  if (!before) return { first: lost ? began : at, last: at, attended: began }
  const { first, last, attended } = before
  return {
    first: earliest(first, at),
    last: at,
    // This worker has been present since it started; for the time before, it relies on the others.
    attended: isPause(what, new Date(last), new Date(began)) ? began : earliest(attended, began),
  }
}

function earliest(a: string, b: string): string {
  return a < b ? a : b
}
