import { createHash } from 'node:crypto'

type Keyring<T> = {
  /** Returns the holder of a key; null if the key is unknown or revoked. */
  find(key: string): T | null
  /** Rejects the key from now on. */
  revoke(key: string): void
}

/** Keys are looked up by their hash, so the time of a rejection reveals nothing about any key. */
export function createKeyring<T>(
  holders: readonly { key: string; holder: T }[],
  revoked: readonly string[] = [],
): Keyring<T> {
  const byHash = new Map(holders.map(({ key, holder }) => [hash(key), holder]))
  const revoke = (key: string) => void byHash.delete(hash(key))
  revoked.forEach(revoke)
  return { find: key => byHash.get(hash(key)) ?? null, revoke }
}

/** Returns the key of a company in the sandbox; the same seed and slug give the same key. */
export function sandboxKey(seed: string | number, slug: string): string {
  return `edk_${slug}_${hash(`sandbox ${seed} ${slug}`).slice(0, 32)}`
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
