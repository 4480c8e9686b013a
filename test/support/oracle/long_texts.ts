import { createHash } from 'node:crypto'
import { MEMBERS, type Members, type Spec } from './contract.ts'
import { type Document, isObject } from './json.ts'
import type { Root } from './judge.ts'

/*
 * The rule for texts that a table cannot carry (docs/internals/warehouse.md#long-texts): the values of one row have at
 * most 32 KiB; if there is more, the longest ones are cut to one length.
 */

const ROW_BYTES = 32 * 1024
const MARK = /^(.*)… \[texto cortado: (\d+) bytes, sha256 ([0-9a-f]{16})\]$/s

type Value = readonly [path: string, bytes: number]

/** The fields of a document of which a table has only the beginning. */
export function cutFields(document: Document, root: Root): string[] {
  const own = Object.entries(MEMBERS[root]).filter(
    ([name]) => root === 'notice' || !Object.hasOwn(MEMBERS.notice, name),
  )
  const lists = own.flatMap(([name, spec]) => {
    const elements = document[name]
    if (spec.is !== 'list' || spec.each.is !== 'object' || !Array.isArray(elements)) return []
    const { members } = spec.each
    return elements.map((each: Document) => valuesOf(each, Object.entries(members), `${root}.${name}[]`))
  })
  return [valuesOf(document, own, root), ...lists].flatMap(longestOf)
}

function valuesOf(document: Document, specs: readonly (readonly [string, Spec])[], within: string): Value[] {
  return specs.flatMap(([declared, spec]) => {
    const name = declared.replace('!', '')
    const value = Object.hasOwn(document, name) ? document[name] : undefined
    const path = `${within}.${name}`
    if (value === undefined || value === null || spec.is === 'moment') return []
    if (spec.is === 'object' && isObject(value))
      return valuesOf(value as Document, entriesOf(spec.members), path)
    if (spec.is === 'list' && spec.each.is === 'object') return []
    if (typeof value === 'string') return [[path, Buffer.byteLength(value)] as const]
    return typeof value === 'object' ? [[path, Buffer.byteLength(JSON.stringify(value))] as const] : []
  })
}

function entriesOf(members: Members): [string, Spec][] {
  return Object.entries(members)
}

function longestOf(values: readonly Value[]): string[] {
  const within = (most: number) => values.reduce((sum, [, bytes]) => sum + Math.min(bytes, most), 0)
  if (within(Number.POSITIVE_INFINITY) <= ROW_BYTES) return []
  let [fits, tooLong] = [0, ROW_BYTES + 1]
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >> 1
    if (within(middle) <= ROW_BYTES) fits = middle
    else tooLong = middle
  }
  return values.filter(([, bytes]) => bytes > fits).map(([path]) => path)
}

/** Whether a text is the beginning of another, with the mark that names the other's length and hash. */
export function isCutOf(whole: string, shown: unknown): boolean {
  const [, beginning = '', bytes, hash] = (typeof shown === 'string' && MARK.exec(shown)) || []
  return (
    Number(bytes) === Buffer.byteLength(whole) &&
    hash === createHash('sha256').update(whole).digest('hex').slice(0, 16) &&
    whole.startsWith(beginning) &&
    Buffer.byteLength(String(shown)) <= ROW_BYTES
  )
}

/** The same within JSON values of one structure, or of a whole value that became one text. */
export function isCutJson(whole: unknown, shown: unknown): boolean {
  if (typeof whole === 'string') return whole === shown || isCutOf(whole, shown)
  if (typeof whole !== 'object' || whole === null) return whole === shown
  if (isCutOf(JSON.stringify(whole), shown)) return true
  if (typeof shown !== 'object' || shown === null) return false
  const [one, other] = [Object.entries(whole), Object.entries(shown)]
  return (
    one.length === other.length &&
    one.every(([name, value]) => Object.hasOwn(shown, name) && isCutJson(value, (shown as Document)[name]))
  )
}
