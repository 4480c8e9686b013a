import { Refusal } from '#src/api/server/source.ts'
import { counted } from '#src/platform/count.ts'

type Bucket = { tokens: number; atMs: number }

/**
 * A limit for each key: `maxRps` requests per second, and bursts of as many.
 * @returns a function that counts one request; it throws Refusal (429) if the limit is reached.
 */
export function createQuotas(maxRps: number | null, nowMs = () => performance.now()): (key: string) => void {
  const buckets = new Map<string, Bucket>()
  return key => {
    if (maxRps === null) return
    const now = nowMs()
    const bucket = buckets.get(key) ?? { tokens: maxRps, atMs: now }
    bucket.tokens = Math.min(maxRps, bucket.tokens + ((now - bucket.atMs) / 1000) * maxRps)
    bucket.atMs = now
    buckets.set(key, bucket)
    if (bucket.tokens < 1)
      throw new Refusal(429, `This key may send ${counted(maxRps, 'request')} per second.`, 1)
    bucket.tokens -= 1
  }
}
