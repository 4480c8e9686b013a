import { Refusal } from '#src/api/server/source.ts'
import { counted } from '#src/platform/count.ts'
import type { Holder } from './key_entry.ts'

type Bucket = { tokens: number; atMs: number }

/** What is left of a key's quota: `remaining` requests now, and all of them in `resetSeconds`. */
export type Quota = { readonly limit: number; readonly remaining: number; readonly resetSeconds: number }

/**
 * A limit for each key: its own, or that of all keys, in requests per second; and bursts of as many.
 * @param maxRps of all keys; null for none.
 * @returns a function that counts one request; null without a limit. It throws Refusal (429) if the limit is reached.
 */
export function createQuotas(
  maxRps: number | null,
  nowMs = () => performance.now(),
): (key: Pick<Holder, 'prefix' | 'maxRps'>) => Quota | null {
  const buckets = new Map<string, Bucket>()
  return ({ prefix, maxRps: own }) => {
    const limit = own ?? maxRps
    if (limit === null) return null
    const now = nowMs()
    const bucket = buckets.get(prefix) ?? { tokens: limit, atMs: now }
    bucket.tokens = Math.min(limit, bucket.tokens + ((now - bucket.atMs) / 1000) * limit)
    bucket.atMs = now
    buckets.set(prefix, bucket)
    if (bucket.tokens < 1)
      throw new Refusal(429, `This key may send ${counted(limit, 'request')} per second.`, 1)
    bucket.tokens -= 1
    return {
      limit,
      remaining: Math.floor(bucket.tokens),
      resetSeconds: Math.ceil((limit - bucket.tokens) / limit),
    }
  }
}
