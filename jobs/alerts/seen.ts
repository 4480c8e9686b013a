import type { Redis } from 'ioredis'

/** Workers read a changed configuration at different moments; what none of them has seen for so long is gone. */
export const GONE_AFTER_MS = 2 * 60_000

type Span = {
  readonly first: string
  readonly last: string
  /** Since when some worker was there without a pause; absent from those of older versions. */
  readonly attended?: string
}

/** Since when the workers know what they are configured for, without a pause: companies by slug, directories by path. */
export type Seen = {
  /** Null for what no worker has seen lately. */
  since(what: string): Date | null
}

/** Always present: if it is not there, Redis has lost its data, or is new. */
const WORKERS = '*'

/** What a worker notes: what it is configured for, and how long it has been there itself. */
export type Present = {
  readonly present: readonly string[]
  readonly startedAt: Date
  readonly now: Date
  /** Whether it matters that no worker was there in between. */
  readonly isPause: (what: string, from: Date, until: Date) => boolean
}

/** Notes in Redis, for all workers, what this one is configured for, and drops what none is any more. */
export async function noteSeen(redis: Redis, prefix: string, seen: Present): Promise<Seen> {
  const { now } = seen
  const present = [WORKERS, ...seen.present]
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
  const lost = !spans.has(WORKERS)
  for (const what of present) spans.set(what, extended(spans.get(what), { ...seen, what, lost }))
  if (gone.length > 0) await redis.hdel(key, ...gone)
  const noted = present.map(what => [what, JSON.stringify(spans.get(what))] as const)
  await redis.hset(key, Object.fromEntries(noted))
  return {
    since(what) {
      const span = spans.get(what)
      if (!span) return null
      const { first, attended = first } = span
      return new Date(first > attended ? first : attended)
    },
  }
}

/** Up to now. A time later than now is of a clock that was ahead; ISO times are in the order of their texts. */
function extended(
  before: Span | undefined,
  { what, lost, startedAt, now, isPause }: Present & { what: string; lost: boolean },
): Span {
  const at = now.toISOString()
  const began = earliest(startedAt.toISOString(), at)
  // What was there before Redis lost its data is not new.
  if (!before) return { first: lost ? began : at, last: at, attended: began }
  const { first, last, attended = began } = before
  return {
    first: earliest(first, at),
    last: at,
    // This worker was there all the time since it began; before that it takes the others' word.
    attended: isPause(what, new Date(last), new Date(began)) ? began : earliest(attended, began),
  }
}

function earliest(a: string, b: string): string {
  return a < b ? a : b
}
