import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { LIST_LIMIT, NOTICE, STATUSES } from '#schema/notice.ts'
import { cleanText } from '#schema/text_key.ts'
import { isDateTime } from '#schema/times.ts'
import { SORTS } from '#src/server/search/sorts.ts'
import { wholeParameter } from './parameters.ts'

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
      'Words that must all be in `objeto` or `orgao`, in any form, without regard to accents and case; `"a phrase"`; `word*` for the beginning of a word.',
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

export type SearchParameters = z.output<typeof SEARCH_QUERY>
