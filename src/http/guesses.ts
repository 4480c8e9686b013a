import { networkOf } from './client_address.ts'

/** So many wrong credentials in a row are a mistake; more are a search. */
const BURST = 10
/** From then on one more may be tried after each of these. */
const REFILL_MS = 6000
/** Addresses that are remembered; the one that failed longest ago is forgotten first. */
const MAX_REMEMBERED = 10_000

type Bucket = { tries: number; atMs: number }

/** Counts wrong credentials by address, an IPv6 network of 64 bits being one. */
export type Guesses = {
  /** Seconds until this address may try again; 0 if it may now. */
  waitSeconds(address: string): number
  failed(address: string): void
}

export function createGuesses(nowMs = () => performance.now()): Guesses {
  const buckets = new Map<string, Bucket>()
  const triesOf = (network: string): number => {
    const bucket = buckets.get(network)
    if (!bucket) return BURST
    return Math.min(BURST, bucket.tries + (nowMs() - bucket.atMs) / REFILL_MS)
  }
  return {
    waitSeconds(address) {
      const tries = triesOf(networkOf(address))
      return tries >= 1 ? 0 : Math.ceil(((1 - tries) * REFILL_MS) / 1000)
    },
    failed(address) {
      const network = networkOf(address)
      const tries = Math.max(0, triesOf(network) - 1)
      buckets.delete(network)
      if (buckets.size >= MAX_REMEMBERED) buckets.delete(buckets.keys().next().value as string)
      buckets.set(network, { tries, atMs: nowMs() })
    },
  }
}
