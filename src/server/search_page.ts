import { readTime } from '#schema/times.ts'
import { createPause } from '#src/lib/concurrency.ts'
import { computeTag } from '#src/lib/hash.ts'
import { Refusal } from './contract/source.ts'
import type { Between, Query } from './find.ts'
import { KEPT_MINUTES } from './page_cache.ts'
import type { Term } from './search/words.ts'
import type { ServedSnapshot } from './snapshot.ts'

/** The search of the API, the pages and agents. Each of its pages is of one snapshot. */

/** The orders of a search. `next` begins with the sessions of today. */
const SORTS = ['session', 'value', 'created', 'updated', 'next', 'relevance'] as const
export type SortKey = (typeof SORTS)[number]
/** The orders as parameters: with `-`, the other way round. */
export const SEARCH_ORDERS = SORTS.flatMap(key =>
  key === 'relevance' || key === 'next' ? [key] : [key, `-${key}`],
)

/** The snapshots that a search reads. */
export type Searched = {
  /** Returns the current snapshot. @throws Refusal (503) if there is none yet. */
  snapshot(): ServedSnapshot
  /** Finds the first snapshot that is as wanted, among those that can still be read; or null. */
  findSnapshot(isWanted: (snapshot: ServedSnapshot) => boolean): ServedSnapshot | null
}

/** The conditions of a search, its order and its page. All conditions that are given must match. */
export type SearchParameters = {
  /** Words, phrases and prefixes, as people type them. */
  readonly q?: string | undefined
  readonly uf?: readonly string[] | undefined
  readonly modalidade?: readonly string[] | undefined
  readonly status?: readonly string[] | undefined
  readonly verdict?: readonly string[] | undefined
  /** A day (of the company's time zone), or a time with its offset. */
  readonly session_from?: string | undefined
  readonly session_to?: string | undefined
  readonly updated_from?: string | undefined
  /** In BRL. */
  readonly value_min?: number | undefined
  readonly value_max?: number | undefined
  /** One of `SEARCH_ORDERS`. */
  readonly sort?: string | undefined
  /** The fields of the documents; all by default. */
  readonly fields?: readonly string[] | undefined
  readonly limit: number
  /** `next` of the page before. */
  readonly cursor?: string | undefined
}

export type Urgent = { readonly reds: number; readonly graves: number }

/** The end of a page: in which snapshot, of which search, and with which notice. */
type Cursor = { readonly snapshot: string; readonly search: string; readonly last: number }

function writeSearchCursor({ snapshot, search, last }: Cursor): string {
  return Buffer.from(JSON.stringify([snapshot, search, last])).toString('base64url')
}

/**
 * Returns the snapshot that a cursor continues in, its search, and the ordinal of the last notice before.
 * @throws Refusal (400) if we did not issue it, (410) if its snapshot was removed.
 */
function readSearchCursor(
  text: string,
  source: Pick<Searched, 'findSnapshot'>,
): Omit<Cursor, 'snapshot'> & { readonly snapshot: ServedSnapshot } {
  const cursor = parse(text)
  if (!cursor) throw wrong('cursor: not a cursor of this search. Begin again without it.')
  const snapshot = source.findSnapshot(({ name }) => name === cursor.snapshot)
  if (snapshot) return { ...cursor, snapshot }
  const message = `The snapshot of this cursor was replaced, and is no longer kept: that ends ${KEPT_MINUTES} minutes after it was read last, or earlier if many others are read. Begin again without cursor.`
  throw new Refusal(410, message, null, 'snapshot_gone')
}

function parse(text: string): Cursor | null {
  try {
    const [snapshot, search, last] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[]
    if (typeof snapshot !== 'string' || typeof search !== 'string') return null
    return Number.isSafeInteger(last) && (last as number) >= 0
      ? { snapshot, search, last: last as number }
      : null
  } catch {
    return null
  }
}

export type SearchPage = {
  readonly ids: readonly string[]
  /** Each in parts, as JSON. */
  readonly documents: readonly (readonly Buffer[])[]
  /** For each, the numbers of its red requirements and grave alerts. */
  readonly urgent: readonly Urgent[]
  /** Number of notices on all pages. */
  readonly total: number
  /** The cursor of the next page; null on the last one. */
  readonly next: string | null
  /** Returns the cursor of what follows the first `count` documents; 0 is wrong. */
  readonly cursorAfter: (count: number) => string
  /** The name of the snapshot that the page is of. */
  readonly snapshot: string
  /** Identifies the page, for `ETag`. */
  readonly tag: string
}

/**
 * Searches notices and returns a page of them.
 * @throws Refusal (400) for parameters that contradict each other, or a cursor of another search, (410) and (503).
 */
export async function searchPage(source: Searched, parameters: SearchParameters): Promise<SearchPage> {
  // Commands and companies without searches need no stemmer.
  const [{ find }, { parseText }] = await Promise.all([import('./find.ts'), import('./search/words.ts')])
  const { limit, fields, cursor, ...what } = parameters
  const start = cursor === undefined ? null : readSearchCursor(cursor, source)
  const snapshot = start?.snapshot ?? source.snapshot()
  const { timeZone } = snapshot
  const today = startOfDay(timeZone)
  // The order of `next` is another one each day.
  const day = what.sort === 'next' ? today : null
  const search = computeTag(JSON.stringify([what, day]))
  if (start && (start.search !== search || start.last >= snapshot.size))
    throw wrong('cursor: it belongs to another search. Send the parameters of the first page with it.')
  const terms = parseTerms(what.q, parseText)
  const query = makeQuery(parameters, terms, { after: start?.last ?? null, timeZone, today })
  const { ordinals, total, hasMore } = await find(snapshot.months, query)
  const cursorAfter = (count: number) => {
    snapshot.noteReader()
    return writeSearchCursor({ snapshot: snapshot.name, search, last: ordinals[count - 1] as number })
  }
  const next = hasMore && ordinals.length > 0 ? cursorAfter(ordinals.length) : null
  const pause = createPause()
  const places = ordinals.map(ordinal => snapshot.at(ordinal))
  const documents: (readonly Buffer[])[] = []
  for (const place of places) {
    documents.push(documentAt(place, fields ?? null))
    await pause()
  }
  return {
    ids: places.map(({ prepared, at }) => prepared.index.ids[at] as string),
    documents,
    urgent: places.map(({ prepared, at }): Urgent => {
      const { reds, graves } = prepared.search.numbers
      return { reds: reds[at] || 0, graves: graves[at] || 0 }
    }),
    ...{ total, next, cursorAfter, snapshot: snapshot.name },
    tag: computeTag(JSON.stringify([snapshot.name, parameters, day])),
  }
}

function parseTerms(
  text: string | undefined,
  parse: typeof import('./search/words.ts').parseText,
): readonly Term[] {
  if (text === undefined) return []
  const parsed = parse(text)
  if ('terms' in parsed) return parsed.terms
  throw wrong(`q: ${parsed.problem}.`)
}

/** Makes the query for the parameters. @throws Refusal (400) if they contradict each other. */
function makeQuery(
  parameters: SearchParameters,
  terms: readonly Term[],
  { after, timeZone, today }: { after: number | null; timeZone: string; today: number },
): Query {
  const { limit } = parameters
  const { session_from, session_to, value_min, value_max, updated_from } = parameters
  const sort = parameters.sort ?? (terms.length > 0 ? 'relevance' : '-created')
  if (sort === 'relevance' && terms.length === 0) throw wrong('sort: relevance needs q.')
  return {
    choices: {
      uf: chosen(parameters.uf),
      modalidade: chosen(parameters.modalidade),
      status: chosen(parameters.status),
      verdict: chosen(parameters.verdict),
    },
    numbers: {
      session: between('session', ...sessionsBetween(session_from, session_to, timeZone)),
      value: between('value', value_min, value_max),
      updated: between('session', sessionsBetween(updated_from, undefined, timeZone)[0], undefined),
    },
    terms,
    sort: { key: sort.replace(/^-/, '') as SortKey, descending: sort.startsWith('-') },
    today,
    after,
    limit,
  }
}

/** Returns the wanted values; null for any: an empty list is no condition. */
function chosen(values: readonly string[] | undefined): readonly string[] | null {
  return values?.length ? values : null
}

/** Returns the bounds of the session in microseconds: of days, from the beginning of the first to the end of the last one. */
function sessionsBetween(
  from: string | undefined,
  to: string | undefined,
  timeZone: string,
): [from: number | undefined, to: number | undefined] {
  const [first, last] = [from, to].map(text => (text === undefined ? null : readTime(text, timeZone)))
  return [
    first ? Number(first.micros) : undefined,
    last?.isDay ? computeDayEnd(to as string, timeZone) : last ? Number(last.micros) : undefined,
  ]
}

/** Returns when the present day began, in microseconds. */
function startOfDay(timeZone: string): number {
  return Temporal.Now.zonedDateTimeISO(timeZone).startOfDay().epochMilliseconds * 1000
}

/** Returns the last microsecond of a day. */
function computeDayEnd(day: string, timeZone: string): number {
  const next = Temporal.PlainDate.from(day).add({ days: 1 }).toZonedDateTime(timeZone)
  return next.epochMilliseconds * 1000 - 1
}

function between(
  name: 'session' | 'value',
  from: number | undefined,
  to: number | undefined,
): Between | null {
  if (from === undefined && to === undefined) return null
  const both = { from: from ?? Number.NEGATIVE_INFINITY, to: to ?? Number.POSITIVE_INFINITY }
  if (both.from <= both.to) return both
  const [low, high] = name === 'session' ? ['session_from', 'session_to'] : ['value_min', 'value_max']
  throw wrong(`${low} is above ${high}, so nothing matches. Swap them.`)
}

function wrong(message: string): Refusal {
  return new Refusal(400, message, null, 'invalid_parameter')
}

/** Returns the notice as the contract has it, with the verdict of its current analysis; in parts. */
function documentAt(
  { prepared, at }: ReturnType<ServedSnapshot['at']>,
  fields: readonly string[] | null,
): readonly Buffer[] {
  const notice = prepared.notices(at, at + 1)
  const { values, of } = prepared.search.choices.verdict
  const recommendation = values[(of[at] as number) - 1]
  const verdict = recommendation === undefined ? null : { recommendation }
  if (fields) return [selected({ ...JSON.parse(notice.toString()), ...(verdict && { verdict }) }, fields)]
  if (!verdict) return [notice]
  return [notice.subarray(0, -1), Buffer.from(`,"verdict":${JSON.stringify(verdict)}}`)]
}

function selected(document: Readonly<Record<string, unknown>>, fields: readonly string[]): Buffer {
  const chosen = Object.entries(document).filter(([name]) => fields.includes(name))
  return Buffer.from(JSON.stringify(Object.fromEntries(chosen)))
}
