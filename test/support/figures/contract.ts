import { type ContractField, fieldsBelow, LISTS, PARTS } from '../contract_tables.ts'
import { identifierOf, isUnread } from '../oracle/identifier.ts'

/** The documents of docs/contract.md, as far as figures depend on deviations from them. */

type Shape =
  | 'text'
  | 'number'
  | 'flag'
  | 'time'
  | 'any'
  | readonly string[]
  | { readonly each: Shape }
  | { readonly of: Readonly<Record<string, Shape>> }

export type Document = Readonly<Record<string, unknown>>

type Contract = {
  readonly root: 'notice' | 'analysis'
  readonly required: readonly string[]
  readonly fields: Readonly<Record<string, Shape>>
}

const SHAPES: Readonly<Record<string, Shape>> = {
  string: 'text',
  'string, date-time': 'time',
  number: 'number',
  'number (double)': 'number',
  integer: 'number',
  boolean: 'flag',
  'array of string': { each: 'text' },
  'object (free-form)': 'any',
}

function shapeOf({ name, type, values }: ContractField): Shape {
  if (values.length > 0) return values
  if (name in LISTS) return { each: { of: shapesBelow(LISTS[name as keyof typeof LISTS]) } }
  if (type === 'object') return { of: shapesBelow(PARTS[name as keyof typeof PARTS]) }
  const shape = SHAPES[type]
  if (shape === undefined) throw new Error(`docs/contract.md: ${name} has the unknown type ${type}`)
  return shape
}

function shapesBelow(heading: string): Readonly<Record<string, Shape>> {
  return Object.fromEntries(fieldsBelow(heading).map(field => [field.name, shapeOf(field)]))
}

function contractBelow(heading: string, root: Contract['root']): Contract {
  const always = fieldsBelow(heading).filter(({ presence }) => presence === 'always')
  return { root, required: always.map(({ name }) => name), fields: shapesBelow(heading) }
}

export const NOTICE = contractBelow('Notice', 'notice')
export const ANALYSIS = contractBelow('Analysis', 'analysis')

/** A document is usable if it has every required field. */
export function isUsable(document: Document, { required }: Contract): boolean {
  return required.every(field => (document[field] ?? null) !== null)
}

/** The document's fields that the contract knows, as text; a new version has a different text. */
export function contractText(document: Document, { fields }: Contract): string {
  return JSON.stringify(Object.keys(fields).map(field => document[field] ?? null))
}

export type Departure = {
  readonly path: string
  readonly kind: 'unknown_field' | 'unknown_enum' | 'unknown_form' | 'wrong_type'
}

/** Every place where a document deviates from the contract; a place in a list once per element. */
export function departures(document: Document, { root, fields }: Contract): Departure[] {
  const { pncp_id } = document
  const isWrong = root === 'notice' && typeof pncp_id === 'string' && isUnread(identifierOf(pncp_id))
  return [
    ...inObject(document, fields, root),
    ...(isWrong ? [{ path: 'notice.pncp_id', kind: 'unknown_form' as const }] : []),
  ]
}

function inObject(object: Document, fields: Readonly<Record<string, Shape>>, path: string): Departure[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const shape = fields[name]
    const at = `${path}.${name}`
    return shape ? inValue(value, shape, at) : [{ path: at, kind: 'unknown_field' }]
  })
}

/** Absent and null are the same. */
function inValue(value: unknown, shape: Shape, path: string): Departure[] {
  if (value === undefined || value === null || shape === 'any') return []
  if (typeof shape === 'object' && 'each' in shape) {
    return (value as unknown[]).flatMap(element => inValue(element, shape.each, `${path}[]`))
  }
  if (typeof shape === 'object' && 'of' in shape) return inObject(value as Document, shape.of, path)
  if (isOf(value, shape)) return []
  const listed = typeof shape === 'object' && typeof value === 'string'
  return [{ path, kind: listed ? 'unknown_enum' : 'wrong_type' }]
}

function isOf(value: unknown, shape: 'text' | 'number' | 'flag' | 'time' | readonly string[]): boolean {
  if (shape === 'number') return typeof value === 'number'
  if (shape === 'flag') return typeof value === 'boolean'
  if (typeof value !== 'string') return false
  if (shape === 'time') return timeOf(value) !== null
  return shape === 'text' || shape.includes(value)
}

/** The text of a field; null if it is not text. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

export function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

export function timeOf(value: unknown): string | null {
  return typeof value === 'string' && /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}|$)/.test(value) ? value : null
}
