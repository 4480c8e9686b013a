import { counted } from '#src/lib/count.ts'
import { Refusal } from './contract/source.ts'
import type { KeyHolder } from './key_entry.ts'

type Bucket = { tokens: number; atMs: number }

/** The rest of a key's quota: `remaining` requests now, and all of them in `resetSeconds`. */
export type Quota = { readonly limit: number; readonly remaining: number; readonly resetSeconds: number }

/** A key sent too many requests (429). */
export class QuotaExceeded extends Refusal {
  readonly quota: Quota

  constructor(quota: Quota) {
    super(429, `This key may send ${counted(quota.limit, 'request')} per second.`, 1)
    this.quota = quota
  }
}

/**
 * Returns a limit for each key: its own, or that of all keys, in requests per second; and bursts of as many.
 * @param maxRps of all keys; null for none.
 * @returns a function that counts one request; null without a limit. It throws QuotaExceeded if the limit is reached.
 */
export function createQuotas(
  maxRps: number | null,
  nowMs = () => performance.now(),
): (key: Pick<KeyHolder, 'prefix' | 'maxRps'>) => Quota | null {
  const buckets = new Map<string, Bucket>()
  return ({ prefix, maxRps: own }) => {
    const limit = own ?? maxRps
    if (limit === null) return null
    const now = nowMs()
    const bucket = buckets.get(prefix) ?? { tokens: limit, atMs: now }
    bucket.tokens = Math.min(limit, bucket.tokens + ((now - bucket.atMs) / 1000) * limit)
    bucket.atMs = now
    buckets.set(prefix, bucket)
    const isOver = bucket.tokens < 1
    if (!isOver) bucket.tokens -= 1
    const quota = {
      limit,
      remaining: Math.floor(bucket.tokens),
      resetSeconds: Math.ceil((limit - bucket.tokens) / limit),
    }
    if (isOver) throw new QuotaExceeded(quota)
    return quota
  }
}
