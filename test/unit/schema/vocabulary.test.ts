import { describe, expect, it } from 'vitest'
import type { Portuguese } from '#schema/columns.ts'
import { CATALOG } from '#schema/marts/marts.ts'

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
