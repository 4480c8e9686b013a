import { networkOf } from './client_address.ts'

/** Addresses that are remembered; the one that spent something longest ago is forgotten first. */
const MAX_REMEMBERED = 10_000

type Bucket = { left: number; atMs: number }

/** How much of something an address may do: so many at once, and later one more at a time. */
export type Allowance = {
  /** Seconds until this address has something left; 0 if it has now. */
  waitSeconds(address: string): number
  spend(address: string): void
}

/** By address; an IPv6 network of 64 bits counts as one. */
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

/** Of wrong credentials: ten in a row are a mistake; more are a search, and are tried ten a minute. */
export const WRONG_CREDENTIALS = { atOnce: 10, refillMs: 6000 } as const
