import type { MetabaseItem } from './client.ts'

/**
 * Marks what we created at the end of its description, with company and key. Names cannot identify it: users may
 * change them, and may use the same name for objects of their own.
 */
export function marked(description: string, company: string, key: string): string {
  return `${description}\n\n${mark(company, key)}`
}

export function mark(company: string, key: string): string {
  return `[editais-sync ${company}/${key}]`
}

/** Returns whether a description belongs to an object that we created. */
export function isMarked(description: string | null | undefined, company: string, key: string): boolean {
  return description?.includes(mark(company, key)) ?? false
}

/** Returns the company of a database, by its mark. */
export function companyOfMark(description: string | null | undefined): string | null {
  return /\[editais-sync ([^/\s\]]+)\/base\]/.exec(description ?? '')?.[1] ?? null
}

/** Metabase's own address for the user of an API key. */
const KEY_USER = '@api-key.invalid'

/**
 * Returns the object that we created, or null. A person's copy has our mark as well, but it has a higher id, and that person is its
 * creator.
 * @param user the id of our key's user. If that user created none, the first is ours if it is of an earlier key.
 */
export function ours(
  those: readonly MetabaseItem[],
  { company, user }: { readonly company: string; readonly user: number },
  key: string,
): MetabaseItem | null {
  const found = those.filter(({ description }) => isMarked(description, company, key))
  const [first = null, ...others] = found.sort((a, b) => a.id - b.id)
  const own = [first, ...others].find(one => one?.creator?.id === user)
  return own ?? (first?.creator?.email?.endsWith(KEY_USER) ? first : null)
}

/**
 * Returns whether `actual` contains everything in `wanted`. Metabase adds properties and defaults to what it was given, and
 * uses null for absent values.
 */
export function covers(actual: unknown, wanted: unknown): boolean {
  if (wanted === null || wanted === undefined) return actual === null || actual === undefined
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(actual) &&
      actual.length === wanted.length &&
      wanted.every((value, position) => covers(actual[position], value))
    )
  }
  if (typeof wanted === 'object') {
    return (
      typeof actual === 'object' &&
      actual !== null &&
      Object.entries(wanted).every(([name, value]) =>
        covers((actual as Record<string, unknown>)[name], value),
      )
    )
  }
  return actual === wanted
}
