import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { MUTANTS } from '#test/mutants.ts'
import { PLANTED } from '#test/simulation/planted.ts'

const KINDS = [
  ['mutant', MUTANTS],
  ['planted bug', PLANTED],
] as const

test.each(KINDS)('each %s has its place: its text stands in its file exactly once', (_kind, bugs) => {
  for (const { name, file, from } of bugs) {
    const text = readFileSync(join(import.meta.dirname, '../..', file), 'utf8')
    expect(text.split(from), name).toHaveLength(2)
  }
})

test.each(KINDS)('each %s has a name of its own', (_kind, bugs) => {
  expect(new Set(bugs.map(({ name }) => name)).size).toBe(bugs.length)
})
