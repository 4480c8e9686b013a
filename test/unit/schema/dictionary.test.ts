import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Portuguese } from '#schema/columns.ts'
import { CATALOG } from '#schema/marts.ts'
import { checkDictionary, DICTIONARY_FILE } from '#src/cli/dictionary.ts'
import { temporaryDirectory } from '#test/support/project.ts'

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
    const entries = CATALOG.flatMap(({ portuguese, columns }) => [
      portuguese,
      ...columns.map(column => column.portuguese),
    ])
    const unfit = ([label, description]: Portuguese) =>
      !/^\S.{0,38}\S$/.test(label) || !/^\S.+[^\s.]$/.test(description)
    expect(entries.filter(unfit)).toEqual([])
  })

  it('gives no two columns of a table the same label', () => {
    const alike = CATALOG.flatMap(({ name, columns }) => {
      const labels = columns.map(({ portuguese: [label] }) => label)
      return labels.filter((label, at) => labels.indexOf(label) !== at).map(label => `${name}: ${label}`)
    })
    expect(alike).toEqual([])
  })
})
