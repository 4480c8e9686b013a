import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Column, TABLES, type Table } from '#schema/tables.ts'
import { analysis, notice } from '#schema/zod.ts'

type JsonSchema = {
  readonly anyOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly items?: JsonSchema
}

/** Every leaf field of a schema: `verdict.reason`, `items[].quantidade`. */
function leaves(schema: JsonSchema, path = ''): string[] {
  const [only] = schema.anyOf ?? [schema]
  if (only?.properties && Object.keys(only.properties).length > 0) {
    return Object.entries(only.properties).flatMap(([name, field]) =>
      leaves(field, path ? `${path}.${name}` : name),
    )
  }
  if (only?.items?.properties) return leaves(only.items, `${path}[]`)
  return [path]
}

/** The fields of the documents that the tables' columns come from, in the same notation. */
function origins(tables: readonly Table[]): Set<string> {
  const origin = (table: Table, { from }: Column): string | null => {
    const prefix = table.each ? `${table.each}[].` : ''
    if ('field' in from) return prefix + from.field
    if ('freeForm' in from) return `${from.freeForm}.${from.property}`
    return 'line' in from && from.line === 'edital_id' ? 'id' : null
  }
  return new Set(tables.flatMap(table => table.columns.flatMap(column => origin(table, column) ?? [])))
}

function uncovered(schema: z.ZodType, tables: readonly Table[]): string[] {
  const known = origins(tables)
  return leaves(z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonSchema).filter(
    path => !known.has(path),
  )
}

describe('the tables', () => {
  const noticeTables = TABLES.filter(table => table.name === 'editais')

  it('have a column for every field of a notice', () => {
    expect(uncovered(notice, noticeTables)).toEqual([])
  })

  it('have a column for every field of an analysis; fields repeated from the notice are in editais', () => {
    const current = TABLES.filter(table => table.document === 'analysis' && table.rows === 'current')
    expect(uncovered(analysis, [...noticeTables, ...current])).toEqual([])
  })

  it('fail this check if a column is missing', () => {
    const grown = notice.extend({ prazo: z.string(), itens: z.array(z.object({ cor: z.string() })) })
    expect(uncovered(grown, noticeTables)).toEqual(['prazo', 'itens[].cor'])
  })

  it('name only fields of the contract', () => {
    const documented = new Set(
      [notice, analysis].flatMap(schema =>
        leaves(z.toJSONSchema(schema, { unrepresentable: 'any' }) as JsonSchema),
      ),
    )
    // The object itself, published as JSON text, covers its fields.
    for (const whole of ['overview', 'operational']) documented.add(whole)
    expect([...origins(TABLES)].filter(path => !documented.has(path))).toEqual([])
  })

  it('describe every column', () => {
    const silent = TABLES.flatMap(table =>
      table.columns
        .filter(column => !/\w{3}/.test(column.description))
        .map(column => `${table.name}.${column.name}`),
    )
    expect(silent).toEqual([])
  })
})
