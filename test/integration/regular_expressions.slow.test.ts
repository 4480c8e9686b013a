import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { check } from 'recheck'
import { analyse } from 'scslre'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const FOLDERS = ['src', 'schema', 'jobs', 'config', 'clients/typescript/src']
/** Larger ones are left to the other analysis. */
const TIMEOUT_MS = 1000

/** What these read is short, so it may take the square or the cube of its length; never more. */
const SHORT: Readonly<Record<string, string>> = {
  'src/present/sql/fence.ts': 'SQL that its user waits for',
  'config/companies.ts': 'a line of at most 200 characters',
  'src/deadlines/bind.ts': 'at most 100 characters before a day',
  'src/deadlines/reading.ts': 'at most 70 characters between two days',
  'src/deadlines/tokens.ts': 'at most 10,000 characters; what repeats in it is limited in each place',
}

type Expression = { readonly file: string; readonly source: string; readonly flags: string }

const files = FOLDERS.flatMap(folder =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map(file => join(folder, file)),
).filter(file => /\.[jt]s$/.test(file))

/** Those that are written out. The compiler of this project has no interface for programs. */
function literals(): Expression[] {
  const ts = createRequire(join(ROOT, 'clients/typescript/package.json'))('typescript')
  const found: Expression[] = []
  for (const file of files) {
    const visit = (node: { kind: number; text: string }) => {
      if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) {
        const end = node.text.lastIndexOf('/')
        found.push({ file, source: node.text.slice(1, end), flags: node.text.slice(end + 1) })
      }
      ts.forEachChild(node, visit)
    }
    visit(ts.createSourceFile(file, readFileSync(join(ROOT, file), 'utf8'), ts.ScriptTarget.Latest))
  }
  return found
}

/** Those that modules put together while they are loaded. */
async function constructed(): Promise<Expression[]> {
  const own = files.filter(file => readFileSync(join(ROOT, file), 'utf8').includes('new RegExp('))
  const found: Expression[] = []
  const original = globalThis.RegExp
  globalThis.RegExp = new Proxy(original, {
    construct(target, parameters, newTarget) {
      const expression = Reflect.construct(target, parameters, newTarget) as RegExp
      const [, , caller = ''] = new Error().stack?.split('\n') ?? []
      const file = own.find(one => caller.includes(join(ROOT, one)))
      if (file !== undefined) found.push({ file, source: expression.source, flags: expression.flags })
      return expression
    },
  })
  // As a module of its own: another test may have loaded it.
  for (const file of own) await import(`${join(ROOT, file)}?anew`)
  globalThis.RegExp = original
  expect(new Set(found.map(({ file }) => file))).toEqual(new Set(own))
  return found
}

/**
 * Why it takes more than a time in proportion to the text, for some texts; null if it does not. One analysis is exact, but knows no
 * lookaround and needs long for large expressions; the other one knows the three most frequent reasons, of any expression.
 */
async function slowness({ file, source, flags }: Expression): Promise<string | null> {
  const isShort = SHORT[file] !== undefined
  const found = await check(source, flags, { checker: 'automaton', timeout: TIMEOUT_MS })
  if (found.status === 'safe') return null
  if (found.status === 'vulnerable')
    return isShort && found.complexity.type === 'polynomial' ? null : `slow for ${found.attack.pattern}`
  const [reason] = analyse({ source, flags }).reports
  return reason === undefined || (isShort && !reason.exponential) ? null : `slow (${reason.type})`
}

test('every regular expression takes time in proportion to the text, whatever it is', async () => {
  const slow: string[] = []
  for (const expression of [...(await constructed()), ...literals()]) {
    const reason = await slowness(expression)
    if (reason !== null)
      slow.push(`${expression.file}: /${expression.source}/${expression.flags} is ${reason}`)
  }
  expect(slow).toEqual([])
}, 180_000)

test.each(['x+$', ' \\(.*\\)$', '(?!x)\\s+e\\s+', '^(a|a)*$'])('/%s/ is slow', async source => {
  expect(await slowness({ file: '', source, flags: '' })).not.toBeNull()
})
