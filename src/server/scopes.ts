/**
 * The scopes of a key. `read` searches, exports and reads history below `/api/v1/mirror`; `feed` follows changes; `sql` asks the
 * company's catalog in SQL; `admin` manages what belongs to other keys of the company. A key with any of these may read the API of
 * the contract. `watch` sees the worker's reports, queues and status; `operate` does, too, and also starts and changes runs.
 */
export const SCOPES = ['read', 'feed', 'sql', 'admin', 'watch', 'operate'] as const
export type Scope = (typeof SCOPES)[number]

/** Scopes of keys that were created without a choice, and before there was one. */
export const DEFAULT_SCOPES: readonly Scope[] = ['read', 'feed']

/**
 * Reads the scopes of a key.
 * @param stored as a key file has them, separated by commas; null for the default. Unknown ones are ignored.
 */
export function scopesOf(stored: string | null): readonly Scope[] {
  if (stored === null) return DEFAULT_SCOPES
  const names = stored.split(',')
  return SCOPES.filter(scope => names.includes(scope))
}

/** Returns whether a scope is for the worker itself, not for the notices of a company. */
export function isOfOperators(scope: Scope): boolean {
  return scope === 'watch' || scope === 'operate'
}
