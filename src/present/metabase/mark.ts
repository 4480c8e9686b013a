/**
 * What was made by us says so at the end of its description, with company and key: names are for people, who may
 * change them, and may have given the same name to something of theirs.
 */
export function marked(description: string, company: string, key: string): string {
  return `${description}\n\n${mark(company, key)}`
}

export function mark(company: string, key: string): string {
  return `[editais-sync ${company}/${key}]`
}

/** Whether a description is that of something of ours. */
export function isMarked(description: string | null | undefined, company: string, key: string): boolean {
  return description?.includes(mark(company, key)) ?? false
}

/** The company of whoever's database it is by its mark. */
export function companyOfMark(description: string | null | undefined): string | null {
  return /\[editais-sync ([^/\s\]]+)\/base\]/.exec(description ?? '')?.[1] ?? null
}

/** The one of ours: a copy that somebody made of it has the same description and is younger. */
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
