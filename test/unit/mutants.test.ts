import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { MUTANTS } from '#test/mutants.ts'

test('each mutant has its place: its text stands in its file exactly once', () => {
  for (const { name, file, from } of MUTANTS) {
    const text = readFileSync(join(import.meta.dirname, '../..', file), 'utf8')
    expect(text.split(from), name).toHaveLength(2)
  }
})

test('each mutant has a name of its own', () => {
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
})
