import { z } from 'zod'
import { RECOMMENDATIONS } from '#schema/analysis.ts'
import { LIST_LIMIT, NOTICE, STATUSES } from '#schema/notice.ts'
import { cleanText } from '#schema/text_key.ts'
import { SORTS } from '../search/sorts.ts'
import { wholeParameter } from './parameters.ts'

/** What people type; a longer text is a mistake. */
const MAX_TEXT = 500
const MAX_CURSOR = 400
/** Brasília time, without daylight saving since 2019: days of notices are meant in it. */
const OFFSET = '-03:00'
const DAY_US = 86_400_000_000

/** The fields that an answer can have. */
export const FIELDS: readonly string[] = [...Object.keys(NOTICE), 'verdict']

const ORDERS = SORTS.flatMap(key => (key === 'relevance' ? [key] : [key, `-${key}`]))

/** One or several of these, with commas between them. */
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

/** A day, or a point in time; as microseconds since 1970 of its beginning or end. */
function when(end: 'beginning' | 'end') {
  return z
    .string()
    .regex(WHEN, 'must be a day such as 2026-12-31 or a time such as 2026-12-31T09:00:00-03:00')
    .transform((text, context) => {
      const isDay = text.length === 10
      const ms = isRealDay(text) ? Date.parse(isDay ? `${text}T00:00:00${OFFSET}` : text) : Number.NaN
      if (Number.isNaN(ms)) {
        context.addIssue({ code: 'custom', message: `there is no ${text}` })
        return z.NEVER
      }
      return ms * 1000 + (isDay && end === 'end' ? DAY_US - 1 : 0)
    })
}

/** `Date` takes the 31st of June for the 1st of July. */
function isRealDay(text: string): boolean {
  const day = text.slice(0, 10)
  const ms = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day)
}

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
    .regex(/^[A-Za-z]{2}(,[A-Za-z]{2})*$/, 'must be states such as SP, with commas between them')
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
  session_from: when('beginning').optional().describe(`Earliest session: a day (${OFFSET}) or a time.`),
  session_to: when('end').optional().describe('Latest session: a day, up to its end, or a time.'),
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
