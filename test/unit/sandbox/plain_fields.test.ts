import { expect, it } from 'vitest'
import type { Fields, Value, ValueType } from '#schema/record.ts'
import { isDateTime } from '#schema/times.ts'
import { withPlainFields } from '#src/sandbox/plain_fields.ts'

const field = (type: ValueType, more: { readonly values?: readonly string[] } = {}): Value => ({
  type,
  column: false,
  ...more,
})

/** Whether a value is one of a type. */
const IS_OF: Readonly<Record<ValueType, (value: unknown) => boolean>> = {
  id: value => /^[0-9a-f]{32}$/.test(String(value)),
  string: value => typeof value === 'string',
  'date-time': value => isDateTime(String(value)),
  integer: Number.isInteger,
  number: Number.isFinite,
  double: Number.isFinite,
  boolean: value => typeof value === 'boolean',
  strings: value => Array.isArray(value) && value.every(each => typeof each === 'string'),
  object: value => typeof value === 'object' && value !== null,
  any: value => value !== undefined,
}
const TYPES = Object.keys(IS_OF) as ValueType[]

it('a field without a generator gets a value of its type, the same for the same seed', () => {
  const fields: Fields = Object.fromEntries(TYPES.map(type => [`novo_${type}`, field(type)]))
  const document: Record<string, unknown> = withPlainFields(fields, {}, 'a')
  for (const type of TYPES) expect(document[`novo_${type}`], type).toSatisfy(IS_OF[type])
  expect(withPlainFields(fields, {}, 'a')).toEqual(document)
  expect(withPlainFields(fields, {}, 'b')).not.toEqual(document)
  expect(withPlainFields({ cor: field('string', { values: ['azul'] }) }, {}, 'a')).toEqual({ cor: 'azul' })
})

it('parts and elements of lists get it too, unless the part is absent or empty', () => {
  const part = { component: 'Part', fields: { cor: field('string', { values: ['azul'] }) } }
  const fields: Fields = {
    parte: { part },
    vazia: { part },
    nula: { part },
    falta: { part },
    lista: { each: part },
  }
  const document = { parte: { a: 1 }, vazia: {}, nula: null, lista: [{}, { cor: 'verde' }] }
  expect(withPlainFields(fields, document, 'a')).toEqual({
    parte: { a: 1, cor: 'azul' },
    vazia: {},
    nula: null,
    lista: [{ cor: 'azul' }, { cor: 'verde' }],
  })
})

it('what a generator leaves out at times stays absent, and null stays null', () => {
  const fields: Fields = { numero: field('string'), novo: field('string') }
  expect(withPlainFields(fields, { novo: null }, 'a')).toEqual({ novo: null })
})
