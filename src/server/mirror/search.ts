import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { LIST_LIMIT, NOTICE, STATUSES } from '#schema/notice.ts'
import { documentSchemas } from '#schema/openapi.ts'
import { cleanText } from '#schema/text_key.ts'
import { isDateTime, readTime } from '#schema/times.ts'
import { createPause } from '#src/lib/concurrency.ts'
import { tagOf } from '#src/lib/hash.ts'
import { sendJson } from '#src/server/contract/answers.ts'
import { Json, Refusal } from '#src/server/contract/source.ts'
import type { Between, Query } from '#src/server/find.ts'
import { KEPT_MINUTES } from '#src/server/kept_snapshots.ts'
import { SORTS } from '#src/server/search/sorts.ts'
import type { Term } from '#src/server/search/words.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import { type MirrorSource, mirrorRoute, wholeParameter } from './route.ts'

/** Maximum length of what people type; a longer text is a mistake. */
const MAX_TEXT = 500
const MAX_CURSOR = 400

/** The fields that an answer can have. */
const FIELDS: readonly string[] = [...Object.keys(NOTICE), 'verdict']

const ORDERS = SORTS.flatMap(key => (key === 'relevance' ? [key] : [key, `-${key}`]))

/** Creates a parameter of one or several of these values, with commas between them. */
function someOf(values: readonly string[]) {
  const one = `(${values.join('|')})`
  return z
    .string()
    .regex(new RegExp(`^${one}(,${one})*$`), `must be of ${values.join(', ')}, with commas between them`)
    .transform(text => text.split(','))
}

const LETTERS = '0-9A-Za-zÀ-ÖØ-öø-ɏ'
/**
 * A part without a word would match every modality. It matches in one way only, up to the first letter and after it: if there
 * were several for each part, a text of a hundred characters would keep the server busy for years.
 */
const MODALITY = `[^,${LETTERS}]*[${LETTERS}][^,]*`
const MODALITIES = new RegExp(`^${MODALITY}(,${MODALITY})*$`)

const MONEY = z
  .string()
  .regex(/^\d{1,15}(\.\d{1,6})?$/, 'must be an amount in BRL such as 150000 or 99.90')
  .transform(Number)

const WHEN = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d))?$/

/** A day, or a point in time. */
const when = z
  .string()
  .regex(WHEN, 'must be a day such as 2026-12-31 or a time such as 2026-12-31T09:00:00-03:00')
  .refine(isDateTime, { error: ({ input }) => `there is no ${input}` })

export const SEARCH_QUERY = z.object({
  q: z
    .string()
    .max(MAX_TEXT, `must have at most ${MAX_TEXT} characters`)
    .optional()
    .describe(
      'Words that must all be there, in any form, without regard to accents and case: in `objeto` and `orgao`, in number, identifier and CNPJ, in items and requirements. `"a phrase"`, of `objeto` or `orgao`; `word*` for the beginning of a word.',
    ),
  uf: z
    .string()
    .overwrite(cleanText)
    .regex(/^[A-Za-z]{2}( ?, ?[A-Za-z]{2})*$/, 'must be states such as SP, with commas between them')
    .transform(text => text.split(','))
    .optional()
    .describe('States, with commas between them.'),
  modalidade: z
    .string()
    .overwrite(cleanText)
    .max(MAX_TEXT, `must have at most ${MAX_TEXT} characters`)
    .regex(MODALITIES, 'must be modalities, each with a word, and with commas between them')
    .transform(text => text.split(','))
    .optional()
    .describe('Modalities, with commas between them. Some of its words are enough: `pregao eletronico`.'),
  status: someOf(STATUSES).optional().describe('Phases, with commas between them.'),
  verdict: someOf(RECOMMENDATIONS)
    .optional()
    .describe('Recommendations of the current analysis, with commas between them.'),
  session_from: when.optional().describe('Earliest session: a day (local time of the company) or a time.'),
  session_to: when.optional().describe('Latest session: a day, up to its end, or a time.'),
  value_min: MONEY.optional().describe('Least `valor_estimado`, in BRL.'),
  value_max: MONEY.optional().describe('Greatest `valor_estimado`, in BRL.'),
  sort: z
    .enum(ORDERS as [string, ...string[]], `must be one of ${ORDERS.join(', ')}`)
    .optional()
    .describe(
      'Ascending, or with `-` descending; notices without the field come last. By default `relevance` with `q`, and `-created` without.',
    ),
  fields: someOf(FIELDS).optional().describe('The fields of the notices in the answer; all by default.'),
  limit: wholeParameter({ min: LIST_LIMIT.min, max: LIST_LIMIT.max, usual: LIST_LIMIT.default }).describe(
    `Notices of a page; ${LIST_LIMIT.default} by default.`,
  ),
  cursor: z
    .string()
    .max(MAX_CURSOR, 'is not one of this API')
    .optional()
    .describe('`next` of the page before, with the same parameters: the next page, of the same snapshot.'),
})

type SearchParameters = z.output<typeof SEARCH_QUERY>

const { properties } = documentSchemas().Edital as { properties: Readonly<Record<string, object>> }

/** Times in other forms than the usual one are as they were sent, often without an offset. */
const fields = Object.entries(properties).map(([name, property]) => [
  name,
  'format' in property && property.format === 'date-time' ? { ...property, format: undefined } : property,
])

/** A notice as a search answers it; with `fields`, any of these may be missing. */
const FOUND_NOTICE = {
  type: 'object',
  properties: {
    ...Object.fromEntries(fields),
    status: { type: 'string', enum: STATUSES },
    verdict: {
      type: 'object',
      required: ['recommendation'],
      properties: { recommendation: { type: 'string', enum: RECOMMENDATIONS } },
      description: 'Of the current analysis; absent without one.',
    },
  },
}

const SEARCH_PAGE = {
  type: 'object',
  required: ['editais', 'count', 'total', 'next', 'snapshot'],
  properties: {
    editais: { type: 'array', items: FOUND_NOTICE },
    count: { type: 'integer', description: 'How many notices this page has.' },
    total: { type: 'integer', description: 'How many notices match.' },
    next: { type: ['string', 'null'], description: '`cursor` of the next page; null on the last one.' },
    snapshot: { type: 'string', description: 'The snapshot that the page is of.' },
  },
}

/** The end of a page: in which snapshot, of which search, and with which notice. */
type Cursor = { readonly snapshot: string; readonly search: string; readonly last: number }

function writeSearchCursor({ snapshot, search, last }: Cursor): string {
  return Buffer.from(JSON.stringify([snapshot, search, last])).toString('base64url')
}

/**
 * Returns the snapshot that a cursor continues in, and the ordinal of the last notice before.
 * @param search identifies the search that it must come from.
 * @throws Refusal (400) if it is not from this search, (410) if the snapshot is no longer there.
 */
function readSearchCursor(
  text: string,
  search: string,
  source: Pick<MirrorSource, 'findSnapshot'>,
): { snapshot: ServedSnapshot; last: number } {
  const cursor = parse(text)
  if (!cursor) throw refusal('cursor: not a cursor of this search. Begin again without it.')
  const snapshot = source.findSnapshot(({ name }) => name === cursor.snapshot)
  if (!snapshot) {
    const message = `The snapshot of this cursor was replaced, and is no longer kept: that ends ${KEPT_MINUTES} minutes after it was read last, or earlier if many others are read. Begin again without cursor.`
    throw new Refusal(410, message, null, 'snapshot_gone')
  }
  if (cursor.search !== search || cursor.last >= snapshot.size)
    throw refusal('cursor: it belongs to another search. Send the parameters of the first page with it.')
  return { snapshot, last: cursor.last }
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

function refusal(message: string): Refusal {
  return new Refusal(400, message, null, 'invalid_parameter')
}

export const SEARCH_ROUTE = mirrorRoute({
  method: 'GET',
  path: '/editais',
  name: 'search',
  scope: 'read',
  summary: 'Search notices',
  description:
    'Notices that match all parameters, page by page. All pages of a search are of one snapshot: pass `next` as `cursor`, with the same parameters, until it is null. 410 if nobody has read that snapshot for ten minutes after it was replaced.',
  query: SEARCH_QUERY,
  responses: {
    '200': {
      description: 'A page of notices.',
      content: { 'application/json': { schema: SEARCH_PAGE } },
    },
    '304': { description: 'The page is the one of `If-None-Match`.' },
    '410': {
      description: 'The snapshot of the cursor is gone: begin again without it.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  },
  async answer({ context, source, query: parameters }) {
    const { documents, total, next, snapshot } = await searchPage(source, parameters)
    const about = { count: documents.length, total, next, snapshot }
    const page = Buffer.concat([
      BEGIN,
      ...documents.flatMap((document, index) => (index === 0 ? document : [COMMA, ...document])),
      // Without its brace.
      Buffer.from(`],${JSON.stringify(about).slice(1)}`),
    ])
    return await sendJson(context, new Json(page, tagOf(JSON.stringify([snapshot, parameters]))))
  },
})

type SearchPage = {
  /** Each in parts, as JSON. */
  readonly documents: readonly (readonly Buffer[])[]
  /** Number of notices on all pages. */
  readonly total: number
  /** The cursor of the next page; null on the last one. */
  readonly next: string | null
  /** The name of the snapshot that the page is of. */
  readonly snapshot: string
}

/**
 * Searches notices and returns a page of them.
 * @throws Refusal (400) for parameters that contradict each other, or a cursor of another search, (410) and (503).
 */
export async function searchPage(
  source: Pick<MirrorSource, 'snapshot' | 'findSnapshot'>,
  parameters: SearchParameters,
): Promise<SearchPage> {
  // Commands and companies without searches need no stemmer.
  const [{ find }, { parseText }] = await Promise.all([
    import('#src/server/find.ts'),
    import('#src/server/search/words.ts'),
  ])
  const { limit, fields, cursor, ...what } = parameters
  const search = tagOf(JSON.stringify(what))
  const start = cursor === undefined ? null : readSearchCursor(cursor, search, source)
  const snapshot = start?.snapshot ?? source.snapshot()
  const terms = termsOf(what.q, parseText)
  const query = queryOf(parameters, terms, { after: start?.last ?? null, timeZone: snapshot.timeZone })
  const { ordinals, total, hasMore } = await find(snapshot.months, query)
  const last = ordinals.at(-1)
  const next =
    hasMore && last !== undefined ? writeSearchCursor({ snapshot: snapshot.name, search, last }) : null
  if (next !== null) snapshot.noteReader()
  const pause = createPause()
  const documents: (readonly Buffer[])[] = []
  for (const ordinal of ordinals) {
    documents.push(documentAt(snapshot, ordinal, fields ?? null))
    await pause()
  }
  return { documents, total, next, snapshot: snapshot.name }
}

const BEGIN = Buffer.from('{"editais":[')

const COMMA = Buffer.from(',')

function termsOf(
  text: string | undefined,
  parse: typeof import('#src/server/search/words.ts').parseText,
): readonly Term[] {
  if (text === undefined) return []
  const parsed = parse(text)
  if ('terms' in parsed) return parsed.terms
  throw wrong(`q: ${parsed.problem}.`)
}

/** Makes the query for the parameters. @throws Refusal (400) if they contradict each other. */
function queryOf(
  parameters: SearchParameters,
  terms: readonly Term[],
  { after, timeZone }: { after: number | null; timeZone: string },
): Query {
  const { uf = null, modalidade = null, status = null, verdict = null, limit } = parameters
  const { session_from, session_to, value_min, value_max } = parameters
  const sort = parameters.sort ?? (terms.length > 0 ? 'relevance' : '-created')
  if (sort === 'relevance' && terms.length === 0) throw wrong('sort: relevance needs q.')
  return {
    choices: { uf, modalidade, status, verdict },
    numbers: {
      session: between('session', ...sessionsBetween(session_from, session_to, timeZone)),
      value: between('value', value_min, value_max),
    },
    terms,
    sort: { key: sort.replace(/^-/, '') as Query['sort']['key'], descending: sort.startsWith('-') },
    after,
    limit,
  }
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
    last?.isDay ? endOf(to as string, timeZone) : last ? Number(last.micros) : undefined,
  ]
}

/** Returns the last microsecond of a day. */
function endOf(day: string, timeZone: string): number {
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
  snapshot: ServedSnapshot,
  ordinal: number,
  fields: readonly string[] | null,
): readonly Buffer[] {
  const { prepared, at } = snapshot.at(ordinal)
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
