import { z } from 'zod'
import { ANALYSIS } from './analysis.ts'
import { isPlainPathSegment, NOTICE } from './notice.ts'
import type { Field, Fields, Value, ValueType } from './record.ts'
import { isDateTime } from './times.ts'

/** The documents of the contract as zod schemas, from their records. */

const dateTime = z.string().refine(isDateTime, 'is not a date-time').meta({ format: 'date-time' })
const noticeId = z.string().refine(isPlainPathSegment, 'is not a plain path segment')

const TYPES: Readonly<Record<ValueType, z.ZodType>> = {
  id: noticeId,
  string: z.string(),
  'date-time': dateTime,
  integer: z.int(),
  number: z.number(),
  double: z.number(),
  boolean: z.boolean(),
  strings: z.array(z.string()),
  object: z.looseObject({}),
  any: z.unknown(),
}

/** docs/contract.md#notice. */
export const notice = z.strictObject(makeShape(NOTICE))

/** docs/contract.md#analysis. */
export const analysis = z.strictObject(makeShape(ANALYSIS))

/** docs/contract.md#page: the envelope of a list response; each element is validated separately. */
export const noticePage = z.looseObject({
  editais: z.array(z.unknown()),
  count: z.int().min(0),
  total: z.int().min(0),
  limit: z.int(),
  offset: z.int(),
})

function makeShape(fields: Fields): Record<string, z.ZodType> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const schema = makeSchema(field)
      // Absent and null are equivalent in an optional field.
      return [name, field.always ? schema : schema.nullish()]
    }),
  )
}

function makeSchema(field: Field): z.ZodType {
  if ('each' in field) return z.array(z.strictObject(makeShape(field.each.fields)))
  if ('type' in field) return valueSchema(field)
  const { fields, freeForm } = field.part
  return freeForm ? z.looseObject(makeShape(fields)) : z.strictObject(makeShape(fields))
}

function valueSchema({ type, values }: Value): z.ZodType {
  return values ? z.enum(values) : TYPES[type]
}
