import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Column, TABLES, type Table } from '#schema/tables.ts'
import { analysis, notice } from '#schema/zod.ts'
import { checkDictionary, DICTIONARY_FILE, writeDictionary } from '#src/cli/dictionary.ts'
import { SCHEMA_VERSION } from '#src/core/warehouse/schema.ts'
import { temporaryDirectory } from '#test/support/project.ts'

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

describe('the data dictionary', () => {
  it('matches the schema', async () => {
    await checkDictionary(DICTIONARY_FILE)
  })

  it('gives the command to run if it is missing, which writes it', async () => {
    const file = join(await temporaryDirectory(), 'DATA_DICTIONARY.md')
    await expect(checkDictionary(file)).rejects.toThrow('Run editais dictionary')
    await writeDictionary(file)
    await checkDictionary(file)
  })
})

describe('a change of what a log gives', () => {
  /** The dictionary of a version, with other tables or statements. */
  async function recorded(version: number): Promise<string> {
    const file = join(await temporaryDirectory(), 'DATA_DICTIONARY.md')
    const text = await readFile(DICTIONARY_FILE, 'utf8')
    const line = `<!-- Version ${version} of the tables, ${'0'.repeat(64)} -->`
    const other = text.replace(/^<!-- Version .*$/m, line)
    expect(other).toContain(line)
    await writeFile(file, other)
    return file
  }

  it('is refused with the same version, so that older programs leave a newer warehouse alone', async () => {
    const file = await recorded(SCHEMA_VERSION)
    const before = await readFile(file, 'utf8')
    await expect(writeDictionary(file)).rejects.toThrow(`since: ${SCHEMA_VERSION + 1}`)
    expect(await readFile(file, 'utf8')).toBe(before)
  })

  it('is recorded with the next version', async () => {
    const file = await recorded(SCHEMA_VERSION - 1)
    await writeDictionary(file)
    await checkDictionary(file)
  })
})
