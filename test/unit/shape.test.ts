import { expect, test } from 'vitest'
import { ALL, exportedNames, importedNames, importsOf } from '#tools/imports.ts'
import { measureShape } from '#tools/shape.ts'

const SHAPE = measureShape()

test('no size of the project has grown past its limit', () => {
  const grown = SHAPE.filter(({ count, limit }) => count > limit)
  expect(grown.map(({ name, count, limit, found = [] }) => [name, count, limit, found])).toEqual([])
})

test('a limit that is met by far is lowered, so that what was won is kept', () => {
  const slack = SHAPE.filter(({ count, limit, goal }) => count > goal && count < limit * 0.97)
  expect(slack.map(({ name, count, limit }) => [name, count, limit])).toEqual([])
})

const FILE = {
  path: 'src/a/one.ts',
  text: `import { two, type Three as Four } from './two.ts'
import * as five from '#schema/five.ts'
export { six } from '../six.ts'
const { seven: eight } = await import('./seven.ts')
const nine = import('./nine.ts')
export async function ten() {}
export const eleven = 11, twelve = join(import.meta.dirname, 'file.sql')
export type Thirteen = 13
function fourteen() {}
`,
}

test('imports are found in each form', () => {
  expect(importsOf(FILE)).toEqual([
    'src/a/two.ts',
    'schema/five.ts',
    'src/six.ts',
    'src/a/seven.ts',
    'src/a/nine.ts',
    'src/a/file.sql',
  ])
  expect(importedNames(FILE).sort()).toEqual(
    [
      'src/a/two.ts two',
      'src/a/two.ts Three',
      'src/six.ts six',
      'src/a/seven.ts seven',
      `schema/five.ts ${ALL}`,
      `src/a/nine.ts ${ALL}`,
    ].sort(),
  )
  expect(exportedNames(FILE)).toEqual(['ten', 'eleven', 'Thirteen'])
})
