import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { VIEWS } from '#schema/marts.ts'
import { COLUMNS, type Portuguese, portuguese, RELATIONS } from '#schema/portuguese.ts'
import { MART_COLUMNS } from '#schema/portuguese_marts.ts'
import { TABLE_COLUMNS } from '#schema/portuguese_tables.ts'
import { publishedColumns, TABLES } from '#schema/tables.ts'
import { checkDictionary, DICTIONARY_FILE } from '#src/cli/dictionary.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const relations = [
  ...TABLES.map(table => ({ name: table.name, columns: publishedColumns(table) })),
  ...VIEWS,
].map(({ name, columns }) => ({ name, columns: columns.map(column => column.name) }))

describe('the data dictionary', () => {
  it('matches the schema', async () => {
    await checkDictionary(DICTIONARY_FILE)
  })

  it('gives the command to run if it is missing', async () => {
    const file = join(await temporaryDirectory(), 'DATA_DICTIONARY.md')
    await expect(checkDictionary(file)).rejects.toThrow('Run npm run dictionary')
  })
})

describe('the Portuguese vocabulary', () => {
  it('has a label and one line for every table, mart and column', () => {
    const entries = relations.flatMap(({ name, columns }) => [
      portuguese(name),
      ...columns.map(column => portuguese(name, column)),
    ])
    const unfit = ({ label, description }: Portuguese) =>
      !/^\S.{0,38}\S$/.test(label) || !/^\S.+[^\s.]$/.test(description)
    expect(entries.filter(unfit)).toEqual([])
  })

  it('gives no two columns of a table the same label', () => {
    const alike = relations.flatMap(({ name, columns }) => {
      const labels = columns.map(column => portuguese(name, column).label)
      return labels.filter((label, at) => labels.indexOf(label) !== at).map(label => `${name}: ${label}`)
    })
    expect(alike).toEqual([])
  })

  it('has no unused entry', () => {
    const used = new Set(
      relations.flatMap(({ name, columns }) =>
        columns.map(column => (Object.hasOwn(COLUMNS, `${name}.${column}`) ? `${name}.${column}` : column)),
      ),
    )
    expect(Object.keys(COLUMNS).filter(key => !used.has(key))).toEqual([])
    const names = new Set(relations.map(({ name }) => name))
    expect(Object.keys(RELATIONS).filter(key => !names.has(key))).toEqual([])
  })

  it('has no column entry twice', () => {
    expect(Object.keys(MART_COLUMNS).filter(key => Object.hasOwn(TABLE_COLUMNS, key))).toEqual([])
  })

  it('names what has no entry', () => {
    expect(() => portuguese('editais', 'prazo_secreto')).toThrow('editais.prazo_secreto')
    expect(() => portuguese('toString')).toThrow('toString')
  })
})
