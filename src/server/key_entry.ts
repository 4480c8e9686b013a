import { isOfOperators, type Scope, scopesOf } from './scopes.ts'

/** The company of a key for all companies, which has only scopes of operators. */
export const ALL_COMPANIES = '*'

/** Everything about a key that can be shown after its creation. Times are ISO 8601 in UTC. */
export type KeyEntry = {
  readonly prefix: string
  readonly company: string
  readonly description: string
  readonly createdAt: string
  readonly lastUsedAt: string | null
  /** It is refused from this time on; null for never. */
  readonly expiresAt: string | null
  readonly revokedAt: string | null
  /** The prefix of the key that replaced it. */
  readonly replacedBy: string | null
  readonly scopes: readonly Scope[]
  /** Requests per second that it may send; null for the limit of all keys. */
  readonly maxRps: number | null
}

/** The rights of a key. */
export type Rights = Pick<KeyEntry, 'scopes' | 'maxRps'>

/** The holder of an accepted key. */
export type KeyHolder = Pick<KeyEntry, 'company' | 'prefix'> & Rights

/** A `replaced` key is still accepted until it expires. */
type KeyState = 'valid' | 'replaced' | 'expired' | 'revoked'

/** A key as the file has it. */
export type KeyRow = {
  readonly prefix: string
  readonly company: string
  readonly description: string
  readonly created_at: string
  readonly last_used_at: string | null
  readonly revoked_at: string | null
  readonly expires_at: string | null
  readonly replaced_by: string | null
  /** Undefined in a file of an earlier version. */
  readonly scopes?: string | null
  readonly max_rps?: number | null
}

export function stateOf({ revokedAt, expiresAt, replacedBy }: KeyEntry, now: Date): KeyState {
  if (revokedAt !== null) return 'revoked'
  if (isOver(expiresAt, now)) return 'expired'
  return replacedBy === null ? 'valid' : 'replaced'
}

/** Returns the entry of a key. @param waiting time of a revocation that is not in the file yet. */
export function entryOf(row: KeyRow, waiting: Date | undefined): KeyEntry {
  const { prefix, company, description } = row
  return {
    prefix,
    company,
    description,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at ?? waiting?.toISOString() ?? null,
    replacedBy: row.replaced_by,
    ...rightsOf(row),
  }
}

export function rightsOf({ company, scopes = null, max_rps: maxRps = null }: KeyRow): Rights {
  const all = scopesOf(scopes)
  return { scopes: company === ALL_COMPANIES ? all.filter(isOfOperators) : all, maxRps }
}

/** Returns whether a key may read the notices of its company. */
export function readsNotices({ scopes }: Pick<Rights, 'scopes'>): boolean {
  return scopes.some(scope => !isOfOperators(scope))
}

/** Returns whether a key has expired; an invalid time counts as past. */
export function isOver(expiresAt: string | null, now: Date): boolean {
  return expiresAt !== null && !(now.getTime() < Date.parse(expiresAt))
}

export function expiryMs({ expiresAt }: KeyEntry): number {
  return expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt)
}

/** Returns when the successor of a key expires: that of a key of 90 days gets 90 days, too. */
export function sameLifetime(old: KeyEntry, now: Date): Date | null {
  if (old.expiresAt === null) return null
  return new Date(now.getTime() + Date.parse(old.expiresAt) - Date.parse(old.createdAt))
}
