import { createPause } from '#src/lib/concurrency.ts'
import type { PreparedMonth } from './prepared_month.ts'
import { matchText, type TextMatches, weighTerms } from './search/match_text.ts'
import { CHOICES, CHOSEN_BY, type MonthSearch } from './search/month_search.ts'
import type { Term } from './search/words.ts'
import type { SortKey } from './search_page.ts'

/** The columns that a search can bound. */
const RANGES = ['session', 'value', 'updated'] as const

/** More than between any two sessions, in microseconds: 300 years. */
const FAR = 1e16

/** Both ends included. */
export type Between = { readonly from: number; readonly to: number }

export type Query = {
  /** Accepted values. Null: any, and notices without one. */
  readonly choices: Readonly<Record<(typeof CHOICES)[number], readonly string[] | null>>
  /** In the unit of `MonthSearch`. Null: any, and notices without one. */
  readonly numbers: Readonly<Record<(typeof RANGES)[number], Between | null>>
  /** All of them must be there; empty for any text. */
  readonly terms: readonly Term[]
  /** Notices without the key come last, either way; equal ones newest first. Relevance is always best first. */
  readonly sort: { readonly key: SortKey; readonly descending: boolean }
  /** When the present day begins, in the unit of `session`. */
  readonly today: number
  /** The ordinal of the last notice of the page before; null for the first page. */
  readonly after: number | null
  readonly limit: number
}

/** A notice, counted from the newest of a snapshot. */
export type Ordinal = number

export type SearchResult = {
  /** In order; at most `limit`. */
  readonly ordinals: readonly Ordinal[]
  /** How many notices match, whatever `limit` and `after` are. */
  readonly total: number
  /** Whether more of them follow. */
  readonly hasMore: boolean
}

/**
 * Searches the months of a snapshot, newest first. It looks at every notice, which takes less than
 * answering does.
 */
export async function find(months: readonly PreparedMonth[], query: Query): Promise<SearchResult> {
  const pause = createPause()
  const texts = months.map(({ search }) => search.text)
  const weights = query.sort.key === 'relevance' ? await weighTerms(query.terms, texts, pause) : null
  const best = new Best(query.limit)
  const matched: (TextMatches | null)[] = []
  for (const { search } of months) {
    matched.push(query.terms.length > 0 ? await matchText(search.text, query.terms, weights, pause) : null)
    await pause()
  }
  const after = query.after === null ? null : keyAt(months, matched, query)
  let [first, total, following] = [0, 0, 0]
  for (const [number, month] of months.entries()) {
    const isMatch = createMatcher(month.search, query, matched[number] ?? null)
    const keys = makeSortKey(month, query, matched[number] ?? null)
    for (let place = 0; isMatch && place < month.size; place += 1) {
      if (!isMatch(place)) continue
      total += 1
      const [key, ordinal] = [keys(place), first + place]
      if (after !== null && !(key > after || (key === after && ordinal > (query.after as number)))) continue
      following += 1
      best.add(key, ordinal)
    }
    first += month.size
    await pause()
  }
  return { ordinals: best.ordinals, total, hasMore: following > best.ordinals.length }
}

/** The first of all that are added: the lowest keys, and of equal ones the lowest ordinals, which come in order. */
class Best {
  readonly ordinals: Ordinal[] = []
  readonly #keys: number[] = []
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  add(key: number, ordinal: Ordinal): void {
    const keys = this.#keys
    if (keys.length === this.#most && key >= (keys.at(-1) as number)) return
    let [low, high] = [0, keys.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((keys[middle] as number) <= key) low = middle + 1
      else high = middle
    }
    keys.splice(low, 0, key)
    this.ordinals.splice(low, 0, ordinal)
    if (keys.length <= this.#most) return
    keys.pop()
    this.ordinals.pop()
  }
}

/** Returns the key to sort each notice of a month by, ascending; infinite for those without. */
function makeSortKey(
  { index, search }: PreparedMonth,
  { sort: { key, descending }, today }: Query,
  matches: TextMatches | null,
): (place: number) => number {
  if (key === 'next') return place => distance(search.numbers.session[place] as number, today)
  const column =
    key === 'created' ? index.created : key === 'relevance' ? matches?.scores : search.numbers[key]
  const sign = descending || key === 'relevance' ? -1 : 1
  return place => {
    const value = column?.[place] ?? Number.NaN
    return Number.isNaN(value) ? Number.POSITIVE_INFINITY : sign * value
  }
}

/** Sorts sessions to come before past ones, each by how near they are. */
function distance(session: number, today: number): number {
  if (Number.isNaN(session)) return Number.POSITIVE_INFINITY
  return session >= today ? session - today : FAR + today - session
}

/** Returns the key of the notice that the page before ended with. */
function keyAt(
  months: readonly PreparedMonth[],
  matched: readonly (TextMatches | null)[],
  query: Query,
): number {
  let place = query.after as number
  for (const [number, month] of months.entries()) {
    if (place < month.size) return makeSortKey(month, query, matched[number] ?? null)(place)
    place -= month.size
  }
  throw new Error(`there is no notice ${query.after}`)
}

/** Returns whether a notice of this month matches; null if none does. */
function createMatcher(
  search: MonthSearch,
  query: Query,
  matches: TextMatches | null,
): ((place: number) => boolean) | null {
  const tests: ((place: number) => boolean)[] = []
  const termCount = query.terms.length
  if (termCount > 0) {
    if (!matches) return null
    const { found } = matches
    tests.push(place => found[place] === termCount)
  }
  for (const name of CHOICES) {
    const wanted = query.choices[name]
    if (!wanted) continue
    const { parts, of } = search.choices[name]
    const spellings = wanted.flatMap(CHOSEN_BY[name]).filter(spelling => spelling.length > 0)
    const isWanted = (own: ReadonlySet<string>) => spellings.some(all => all.every(part => own.has(part)))
    const accepted = Uint8Array.from([0, ...parts.map(own => (isWanted(own) ? 1 : 0))])
    if (!accepted.includes(1)) return null
    tests.push(place => accepted[of[place] as number] === 1)
  }
  for (const name of RANGES) {
    const between = query.numbers[name]
    if (!between) continue
    const { from, to } = between
    const values = search.numbers[name]
    tests.push(place => (values[place] as number) >= from && (values[place] as number) <= to)
  }
  const [one, two] = tests
  if (!one) return () => true
  if (!two) return one
  if (tests.length === 2) return place => one(place) && two(place)
  return place => tests.every(test => test(place))
}
