import type { Field, Fields, Value, ValueType } from '#schema/record.ts'
import { createRandom, type Random } from './random.ts'

/**
 * Fields that a generator leaves out at times, by path (`listFieldPaths` in `schema/record.ts`). Every other field that a
 * document lacks has no generator, and gets a plain value: so the sandbox sends a new field of the contract at once.
 */
const LEFT_OUT_AT_TIMES: ReadonlySet<string> = new Set([
  'numero',
  'modalidade',
  'valor_estimado',
  'data_sessao',
  'discard_reason',
  'committed_at',
  'overview.valor_estimado',
  'overview.exclusivo_me_epp',
  'requirements[].current',
  'requirements[].ai_notes',
  'requirements[].metadata',
  'items[].numero_lote',
  'items[].ai_selected',
  'items[].ai_reasoning',
  'items[].ai_confidence',
  'operational',
])

type Document = Readonly<Record<string, unknown>>

/**
 * Adds a plain value for each field without a generator. Lists, and parts that are absent or empty, stay as they are:
 * their generators follow the rules of the levels.
 * @param seed the same seed gives the same values; no other random sequence changes.
 */
export function withPlainFields<D extends Document>(fields: Fields, document: D, seed: string): D {
  return completed(fields, document, { seed, within: '' }) as D
}

type Place = { readonly seed: string; readonly within: string }

function completed(fields: Fields, document: Document, place: Place): Document {
  const changed = Object.entries(fields).flatMap(([name, field]) => {
    const value = fieldValue(field, document[name], { ...place, within: place.within + name })
    return value === document[name] ? [] : [[name, value] as const]
  })
  return changed.length === 0 ? document : { ...document, ...Object.fromEntries(changed) }
}

function fieldValue(field: Field, value: unknown, { seed, within }: Place): unknown {
  if ('each' in field) {
    if (!Array.isArray(value)) return value
    return value.map((element: Document, index) =>
      completed(field.each.fields, element, { seed: `${seed} ${index}`, within: `${within}[].` }),
    )
  }
  if ('part' in field) {
    const isEmpty = Object.keys(value ?? {}).length === 0
    return isEmpty ? value : completed(field.part.fields, value as Document, { seed, within: `${within}.` })
  }
  if (value !== undefined || LEFT_OUT_AT_TIMES.has(within)) return value
  return plainValue(within, field, createRandom(`${seed} ${within}`))
}

function plainValue(path: string, { type, values }: Value, random: Random): unknown {
  return values ? random.pick(values) : PLAIN[type](random, path)
}

const PLAIN: Readonly<Record<ValueType, (random: Random, path: string) => unknown>> = {
  id: random => random.hex(32),
  string: (random, path) => `${path} ${random.int(1, 999)}`,
  'date-time': random =>
    new Date(Date.UTC(2026, random.int(0, 11), random.int(1, 28), random.int(0, 23))).toISOString(),
  integer: random => random.int(1, 999),
  number: random => random.int(1, 99_999) / 100,
  double: random => random.int(1, 99_999) / 100,
  boolean: random => random.chance(0.5),
  strings: (random, path) => [`${path} ${random.int(1, 999)}`],
  object: random => ({ valor: random.int(1, 999) }),
  any: (random, path) => `${path} ${random.int(1, 999)}`,
}
