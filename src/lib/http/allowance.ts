import { networkOf } from './client_address.ts'

/** Maximum number of remembered addresses; the least recent spender is forgotten first. */
const MAX_REMEMBERED = 10_000

type Bucket = { left: number; atMs: number }

/** A rate limit per address: a burst of `atOnce`, then one more per `refillMs`. */
type Allowance = {
  /** Seconds until this address may spend again; 0 if it may now. */
  waitSeconds(address: string): number
  spend(address: string): void
}

/** Counts by address; an IPv6 /64 network counts as one. */
export function createAllowance(
  { atOnce, refillMs }: { readonly atOnce: number; readonly refillMs: number },
  nowMs = () => performance.now(),
): Allowance {
  const buckets = new Map<string, Bucket>()
  const leftOf = (network: string): number => {
    const bucket = buckets.get(network)
    return bucket ? Math.min(atOnce, bucket.left + (nowMs() - bucket.atMs) / refillMs) : atOnce
  }
  return {
    waitSeconds(address) {
      const left = leftOf(networkOf(address))
      return left >= 1 ? 0 : Math.ceil(((1 - left) * refillMs) / 1000)
    },
    spend(address) {
      const network = networkOf(address)
      const left = Math.max(0, leftOf(network) - 1)
      buckets.delete(network)
      if (buckets.size >= MAX_REMEMBERED) buckets.delete(buckets.keys().next().value as string)
      buckets.set(network, { left, atMs: nowMs() })
    },
  }
}

/** For wrong credentials: ten in a row are a mistake. More are a guessing attack, and get ten attempts per minute. */
export const WRONG_CREDENTIALS = { atOnce: 10, refillMs: 6000 } as const
