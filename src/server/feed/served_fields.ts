import { ANALYSIS, REPEATED_FIELDS } from '#schema/analysis.ts'
import { NOTICE } from '#schema/notice.ts'
import type { Field, Fields } from '#schema/record.ts'
import { readTime } from '#schema/times.ts'

/**
 * A document of the log as the mirror serves it (`documents.ts`): the JSON text of each field. A field that is not served is
 * absent, so two documents with the same fields are served alike.
 */
export type ServedFields = Readonly<Record<string, string>>

/** A time that is served as an instant in UTC; others are served as they were sent. */
const INSTANT = /:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)$/
/** With an offset, it may be in a year of UTC that has no four digits. */
const FIRST_OR_LAST_YEAR = /^(?:0001|9999).*:\d\d$/

const NOTICE_FIELDS = without(NOTICE, ['id'])
/** Fields of the analysis. Those that repeat the notice's are served from the notice. */
const ANALYSIS_FIELDS = without(ANALYSIS, REPEATED_FIELDS)

/** Returns the fields of a notice, except its id. */
export function servedNotice(document: object): ServedFields {
  return served(document, NOTICE_FIELDS)
}

/** Returns the fields of an analysis, except those of its notice. */
export function servedAnalysis(document: object): ServedFields {
  return served(document, ANALYSIS_FIELDS)
}

function without(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)))
}

function served(document: object, fields: Fields): ServedFields {
  return Object.fromEntries(
    Object.entries(servedObject(document, fields)).map(([name, value]) => [name, JSON.stringify(value)]),
  )
}

function servedObject(document: object, fields: Fields): Record<string, unknown> {
  const of = document as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => {
      const value = of[name]
      return value === undefined || value === null ? [] : [[name, servedValue(value, field)]]
    }),
  )
}

function servedValue(value: unknown, field: Field): unknown {
  if ('each' in field)
    return (value as readonly object[]).map(element => servedObject(element, field.each.fields))
  if ('part' in field) return field.part.freeForm ? value : servedObject(value as object, field.part.fields)
  return field.type === 'date-time' ? servedTime(String(value)) : value
}

function servedTime(text: string): string {
  const isInstant = INSTANT.test(text) && !FIRST_OR_LAST_YEAR.test(text)
  const time = isInstant ? readTime(text, 'UTC') : null
  if (time === null) return text
  const utc = Temporal.Instant.fromEpochNanoseconds(time.micros * 1000n)
  const fraction = time.micros % 1_000_000n === 0n ? 0 : time.micros % 1000n === 0n ? 3 : 6
  return utc.toString({ fractionalSecondDigits: fraction })
}
