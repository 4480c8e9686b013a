import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')
const FILES = globSync('bench/**/*.ts', { cwd: ROOT }).sort()

/** What each file imports of the bench, types included. */
const imports = FILES.flatMap(file =>
  [...readFileSync(join(ROOT, file), 'utf8').matchAll(/\bfrom '(\.[^']+)'/g)].map(
    ([, name = '']) => [file, posix.join(dirname(file), name)] as const,
  ),
)

/** What remains if, again and again, everything that imports nothing is taken away. */
function circles(pairs: readonly (readonly [string, string])[]): string[] {
  const left = pairs.filter(([from]) => pairs.some(([, to]) => to === from))
  const rest = left.filter(([, to]) => left.some(([from]) => from === to))
  if (rest.length === pairs.length) return [...new Set(rest.map(([from]) => from))]
  return circles(rest)
}

test('No files of the bench import each other in a circle', () => {
  expect(circles(imports)).toEqual([])
  expect(imports.length).toBeGreaterThan(FILES.length)
  expect(circles([...imports, ['bench/frame/figures.ts', 'bench/main.ts']])).toContain('bench/main.ts')
})

test('No folders of the bench import each other in a circle', () => {
  const folders = imports.map(([from, to]) => [dirname(from), dirname(to)] as const)
  expect(circles(folders.filter(([from, to]) => from !== to))).toEqual([])
})
