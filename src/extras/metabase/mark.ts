import type { MetabaseDatabase, MetabaseItem } from './client.ts'

/** The property that has our mark, of maps that Metabase keeps as they are. */
export const MARK = 'editais-sync'

/**
 * Where an object has our mark, and people do not see it: in settings of a card, in `points_of_interest` of a dashboard, and in
 * details of a connection whose driver takes only what it knows. Earlier versions wrote it at the end of the description.
 */
type Markable = Partial<MetabaseItem & Pick<MetabaseDatabase, 'details'>>

/**
 * Returns the mark of what we created, with company and key. Names cannot identify it: users may change them, and may use
 * the same name for objects of their own.
 */
export function mark(company: string, key: string): string {
  return `${MARK} ${company}/${key}`
}

/** Returns whether an object is one that we created, or a copy. */
export function isMarked(one: Markable, company: string, key: string): boolean {
  return listMarks(one).includes(mark(company, key))
}

function listMarks({ description, ...one }: Markable): unknown[] {
  const hidden = [one.points_of_interest, one.visualization_settings?.[MARK], one.details?.[MARK]]
  return [...hidden, ...(description ?? '').matchAll(/\[(editais-sync [^\s\]]+)\]/g).map(([, own]) => own)]
}

/** Returns a description without the mark that earlier versions wrote; null if it has nothing else. */
export function removeMark(description: string | null | undefined): string | null {
  return description?.replace(/\[editais-sync \S+\]/, '').trimEnd() || null
}

/** Metabase's own address for the user of an API key. */
const KEY_USER = '@api-key.invalid'

/**
 * Returns the object that we created, or null. A person's copy has our mark as well, but it has a higher id, and that person is its
 * creator.
 * @param user the id of our key's user. If that user created none, the first is ours if it is of an earlier key.
 */
export function findOurs(
  those: readonly MetabaseItem[],
  { company, user }: { readonly company: string; readonly user: number },
  key: string,
): MetabaseItem | null {
  const found = those.filter(one => isMarked(one, company, key))
  const [first = null, ...others] = found.sort((a, b) => a.id - b.id)
  const own = [first, ...others].find(one => one?.creator?.id === user)
  return own ?? (first?.creator?.email?.endsWith(KEY_USER) ? first : null)
}

/** Returns the cards of ours with other keys: those that an earlier version made, and this one does not. */
export function findRetired(
  cards: readonly MetabaseItem[],
  place: { readonly company: string; readonly user: number },
  keys: readonly string[],
): MetabaseItem[] {
  const prefix = mark(place.company, '')
  const marks = cards.flatMap(listMarks).map(String)
  const found = new Set(marks.filter(one => one.startsWith(prefix)).map(one => one.slice(prefix.length)))
  const others = [...found].filter(key => !keys.includes(key))
  return others.flatMap(key => findOurs(cards, place, key) ?? [])
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
