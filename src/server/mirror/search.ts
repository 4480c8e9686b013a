import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { LIST_LIMIT, NOTICE, STATUSES } from '#schema/notice.ts'
import { documentSchemas } from '#schema/openapi.ts'
import { cleanText } from '#schema/text_key.ts'
import { isDateTime } from '#schema/times.ts'
import { sendJson } from '#src/server/contract/answers.ts'
import { Json } from '#src/server/contract/source.ts'
import { SEARCH_ORDERS, searchPage } from '#src/server/search_page.ts'
import { mirrorRoute, wholeParameter } from './routes.ts'

/** Maximum length of what people type; a longer text is a mistake. */
const MAX_TEXT = 500
const MAX_CURSOR = 400

/** The fields that an answer can have. */
const FIELDS: readonly string[] = [...Object.keys(NOTICE), 'verdict']

/** Creates a parameter of one or several of these values, with commas between them. */
function someValues(values: readonly string[]) {
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
  status: someValues(STATUSES).optional().describe('Phases, with commas between them.'),
  verdict: someValues(RECOMMENDATIONS)
    .optional()
    .describe('Recommendations of the current analysis, with commas between them.'),
  session_from: when.optional().describe('Earliest session: a day (local time of the company) or a time.'),
  session_to: when.optional().describe('Latest session: a day, up to its end, or a time.'),
  updated_from: when.optional().describe('Changed (`updated_at`) since: a day or a time.'),
  value_min: MONEY.optional().describe('Least `valor_estimado`, in BRL.'),
  value_max: MONEY.optional().describe('Greatest `valor_estimado`, in BRL.'),
  sort: z
    .enum(SEARCH_ORDERS as [string, ...string[]], `must be one of ${SEARCH_ORDERS.join(', ')}`)
    .optional()
    .describe(
      'Ascending, or with `-` descending; notices without the field come last. `next`: sessions from today on, the nearest first, then past ones, the latest first. By default `relevance` with `q`, and `-created` without.',
    ),
  fields: someValues(FIELDS).optional().describe('The fields of the notices in the answer; all by default.'),
  limit: wholeParameter({ min: LIST_LIMIT.min, max: LIST_LIMIT.max, usual: LIST_LIMIT.default }).describe(
    `Notices of a page; ${LIST_LIMIT.default} by default.`,
  ),
  cursor: z
    .string()
    .max(MAX_CURSOR, 'is not one of this API')
    .optional()
    .describe('`next` of the page before, with the same parameters: the next page, of the same snapshot.'),
})

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

const BEGIN = Buffer.from('{"editais":[')
const COMMA = Buffer.from(',')

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
    const { documents, total, next, snapshot, tag } = await searchPage(source, parameters)
    const about = { count: documents.length, total, next, snapshot }
    const page = Buffer.concat([
      BEGIN,
      ...documents.flatMap((document, index) => (index === 0 ? document : [COMMA, ...document])),
      // Without its brace.
      Buffer.from(`],${JSON.stringify(about).slice(1)}`),
    ])
    return await sendJson(context, new Json(page, tag))
  },
})
