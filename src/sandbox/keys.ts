import { createHash } from 'node:crypto'

export type Keyring<T> = {
  /** Who a key belongs to; null for an unknown or revoked one. */
  find(key: string): T | null
  /** From now on the key is refused. */
  revoke(key: string): void
}

/** Keys are looked up by their hash, so that the time of a refusal tells nothing about any key. */
export function createKeyring<T>(
  holders: readonly { key: string; holder: T }[],
  revoked: readonly string[] = [],
): Keyring<T> {
  const byHash = new Map(holders.map(({ key, holder }) => [hash(key), holder]))
  const revoke = (key: string) => void byHash.delete(hash(key))
  revoked.forEach(revoke)
  return { find: key => byHash.get(hash(key)) ?? null, revoke }
}

/** The key of a company in the sandbox; the same seed and slug give the same key. */
export function sandboxKey(seed: string | number, slug: string): string {
  return `edk_${slug}_${hash(`sandbox ${seed} ${slug}`).slice(0, 32)}`
}

export type PresentedKey = {
  readonly authorization: string | undefined
  readonly xApiKey: string | undefined
}

/**
 * The key that a request presents, or null. The contract wants exactly one header (section 5): both with
 * the same key are accepted, both with different keys are refused, as is any scheme but Bearer.
 */
export function presentedKey({ authorization, xApiKey }: PresentedKey): string | null {
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/iu.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) return null
  if (bearer !== undefined && xApiKey !== undefined && bearer !== xApiKey) return null
  return bearer ?? xApiKey ?? null
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
