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

/** Returns the object that we created: a user's copy of it has the same description but a higher id. */
export function ours<T extends { readonly id: number | 'root'; readonly description?: string | null }>(
  those: readonly T[],
  company: string,
  key: string,
): (T & { readonly id: number }) | null {
  const found = those
    .filter((one): one is T & { readonly id: number } => typeof one.id === 'number')
    .filter(({ description }) => isMarked(description, company, key))
  return found.sort((a, b) => a.id - b.id)[0] ?? null
}
