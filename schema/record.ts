import type { Portuguese, PublishedColumn } from './columns.ts'

/**
 * Records of the contract's fields: the shape of a field, what the API says of it, its column, and what both are called in
 * English and Portuguese. The zod schemas (`zod.ts`), the OpenAPI schemas (`openapi.ts`), the columns (`tables.ts`) and the
 * TypeScript types derive from the records.
 */

/**
 * `id`: text that is safe in a URL's path. `double`: a number that the contract calls a double. `strings`: a list of
 * texts. `object`: a free-form object. `any`: the contract gives no type.
 */
export type ValueType =
  | 'id'
  | 'string'
  | 'date-time'
  | 'integer'
  | 'number'
  | 'double'
  | 'boolean'
  | 'strings'
  | 'object'
  | 'any'

type Presence = {
  /** The field is always there. Otherwise it may be absent; we also accept null then. */
  readonly always?: true
  /** The API itself speaks of null. */
  readonly nullable?: true
  /** The API's words on it: its description (`true`) or other words; absent if the API only names it. */
  readonly api?: true | string
  /** The analysis has it too, with the same value. */
  readonly inAnalysis?: true
  /** The schema of openapi.yaml that describes its values, if they have one of their own. */
  readonly component?: string
}

type Described = {
  readonly description: string
  readonly portuguese: Portuguese
  readonly unit?: string
  /** SCHEMA_VERSION (`src/core/warehouse/schema.ts`) since this column is there. */
  readonly since?: number
  /** Columns for parts of it, after its own. */
  readonly derived?: readonly PublishedColumn[]
}

/** A field with one value. Without a column, it only repeats a column of another table. */
export type Value = Presence & { readonly type: ValueType; readonly values?: readonly string[] } & (
    | (Described & { readonly column?: true })
    | { readonly column: false }
  )

/** An object with fields of its own; if described, it also has a column with the whole object. */
type Nested = Presence & { readonly part: Part } & Partial<Described>

/** A list of objects; they are the rows of the table of that name. */
type List = Presence & { readonly each: Part }

export type Field = Value | Nested | List
export type Fields = Readonly<Record<string, Field>>

export type Part = {
  /** The schema of openapi.yaml that it belongs to. */
  readonly component: string
  readonly fields: Readonly<Record<string, Value>>
  /** Other fields may be there too. */
  readonly freeForm?: true
}

type TypeOf = {
  readonly id: string
  readonly string: string
  readonly 'date-time': string
  readonly integer: number
  readonly number: number
  readonly double: number
  readonly boolean: boolean
  readonly strings: readonly string[]
  readonly object: object
  readonly any: unknown
}

type ValueOf<F> = F extends { readonly values: readonly (infer V)[] }
  ? V
  : F extends { readonly type: infer T extends ValueType }
    ? TypeOf[T]
    : never

type Always<F> = { [K in keyof F]: F[K] extends { readonly always: true } ? K : never }[keyof F]

/** A document whose fields each have one value. */
export type DocumentOf<F> = { readonly [K in Always<F>]: ValueOf<F[K]> } & {
  readonly [K in Exclude<keyof F, Always<F>>]?: ValueOf<F[K]> | null | undefined
}

/** Returns every field below these, by path: `verdict.reason`, `items[].quantidade`. */
export function* listFieldPaths(
  fields: Fields,
  within = '',
): Generator<readonly [path: string, field: Field]> {
  for (const [name, field] of Object.entries(fields)) {
    yield [within + name, field]
    if ('each' in field) yield* listFieldPaths(field.each.fields, `${within}${name}[].`)
    else if ('part' in field) yield* listFieldPaths(field.part.fields, `${within}${name}.`)
  }
}

type Repeated<F> = Omit<F, keyof Described | 'api' | 'inAnalysis'> & {
  readonly api: string
  readonly column: false
}

/** Returns the fields that the analysis repeats: their columns are in the notice's table. */
export function pickRepeated<F extends Readonly<Record<string, Value>>>(
  fields: F,
): { readonly [K in keyof F as F[K] extends { readonly inAnalysis: true } ? K : never]: Repeated<F[K]> } {
  const entries = Object.entries(fields).flatMap(([name, { type, values, component, always, inAnalysis }]) =>
    inAnalysis
      ? [[name, { type, values, component, always, api: 'Same as in Edital.', column: false }] as const]
      : [],
  )
  return Object.fromEntries(entries) as ReturnType<typeof pickRepeated<F>>
}
