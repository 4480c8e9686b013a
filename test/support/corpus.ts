import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { parse } from 'yaml'

/*
 * The cases below `test/corpus/`: each file has the expectations and the body that is served. README.md there
 * describes the format.
 */

const DIRECTORY = join(import.meta.dirname, '../corpus')

/** `list`: an element of the list, or a page; `notice`: the answer for one notice; `analysis`: an analysis. */
export type Place = 'list' | 'notice' | 'analysis'

export type Case = {
  /** The file's name without its extension. */
  readonly name: string
  readonly place: Place
  /** `<place>-<name>`: the case's notice, unless its body has another one. */
  readonly id: string
  readonly expected: Expected
  readonly template: string
}

type Values = Readonly<Record<string, unknown>>

type Expected = {
  /** One sentence. */
  readonly what: string
  /** `loads`: has rows; `quarantined`: with its bytes; `failed`: the request fails, or for a page the run. */
  readonly expect: 'loads' | 'quarantined' | 'failed'
  /** Only in `list`: the body is a whole page. */
  readonly page?: true
  /** The id that the body gives its notice, if it is not the case's id. */
  readonly id?: string
  readonly reason?: string
  readonly path?: string
  /** Part of the report's error for a page that fails. */
  readonly error?: string
  /** Records of a page that must be in the raw log exactly as written here. */
  readonly kept?: readonly string[]
  /** Values that must be in the notice's row, in its analysis, and in the rows of its lists. */
  readonly row?: Values
  readonly analysis?: Values
  readonly requirements?: readonly Values[]
  readonly items?: readonly Values[]
  readonly alerts?: readonly Values[]
  /** Number of rows of a table, if not all are written down. */
  readonly counts?: Readonly<Record<string, number>>
  /** All reported drift of the body, as `<kind> <path>`. */
  readonly drift?: readonly string[]
  /** Whether the bytes are kept with the document, because it does not hold everything in them. */
  readonly raw?: boolean
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly encode?: 'utf-16le' | 'utf-16be' | 'latin1' | 'gzip'
}

const KEYS = [
  'what',
  'expect',
  'page',
  'id',
  'reason',
  'path',
  'error',
  'kept',
  'row',
  'analysis',
  'requirements',
  'items',
  'alerts',
  'counts',
  'drift',
  'raw',
  'status',
  'headers',
  'encode',
]

/** All cases of a place, by name. Throws if a file is not a valid case. */
export function readCases(place: Place): Case[] {
  const directory = join(DIRECTORY, place)
  return readdirSync(directory)
    .sort()
    .map(file => readCase(place, join(directory, file)))
}

function readCase(place: Place, path: string): Case {
  const [, head, template] = /^---\n(.*?)\n---\n(.*)$/s.exec(readFileSync(path, 'utf8')) ?? []
  if (head === undefined || template === undefined)
    throw new Error(`${path} must have "---", expectations, "---" and a body`)
  const expected = parse(head) as Expected
  const unknown = Object.keys(expected).filter(key => !KEYS.includes(key))
  if (unknown.length > 0) throw new Error(`${path}: unknown properties: ${unknown}`)
  if (!expected.what || !expected.expect) throw new Error(`${path}: "what" and "expect" are required`)
  // Editors end a file with a newline; it is not part of the body.
  const name = basename(path, '.case')
  return { name, place, id: `${place}-${name}`, expected, template: template.replace(/\n$/, '') }
}

/** Values for the placeholders of a body. */
export type Ingredients = {
  readonly id: string
  /** A valid document for its place. */
  readonly healthy: Values
  /** Of a page: the valid elements of the list, as JSON texts. */
  readonly elements?: readonly string[]
}

/** The bytes that are served for a case. */
export function bodyOf({ template, expected }: Case, ingredients: Ingredients): Buffer {
  const repeated = template.replaceAll(
    /\{\{repeat (\d+)(?: (.*?))?\}\}(.*?)\{\{end\}\}/gs,
    (_all, times: string, separator: string | undefined, text: string) =>
      repeat(text, Number(times), separator ?? ''),
  )
  const parts = repeated.split(/\{\{(?!\{)(.*?)\}\}/s)
  const bytes = parts.map((part, index) => (index % 2 ? ingredient(part, ingredients) : part))
  return encoded(bytes, expected.encode)
}

function repeat(text: string, times: number, separator: string): string {
  if (!text.includes('{{n}}'))
    return (text + separator).repeat(times).slice(0, -separator.length || undefined)
  return Array.from({ length: times }, (_, index) => text.replaceAll('{{n}}', String(index + 1))).join(
    separator,
  )
}

function ingredient(name: string, { id, healthy, elements = [] }: Ingredients): string | Buffer {
  if (name === 'id') return id
  if (name === 'elements') return elements.join(',')
  if (name === 'total') return String(elements.length)
  if (name === 'bom') return '\ufeff'
  if (name.startsWith('bytes ')) return Buffer.from(name.slice('bytes '.length).replaceAll(' ', ''), 'hex')
  const [, but = ''] = /^healthy(?: but (.*))?$/.exec(name) ?? [undefined]
  if (!name.startsWith('healthy')) throw new Error(`Unknown placeholder {{${name}}}`)
  const left = but.split(/,\s*/)
  const members = Object.fromEntries(Object.entries(healthy).filter(([key]) => !left.includes(key)))
  return JSON.stringify(members).slice(1, -1)
}

function encoded(parts: readonly (string | Buffer)[], encode: Expected['encode']): Buffer {
  const as = encode === 'latin1' ? 'latin1' : encode?.startsWith('utf-16') ? 'utf16le' : 'utf8'
  const bytes = Buffer.concat(parts.map(part => (typeof part === 'string' ? Buffer.from(part, as) : part)))
  if (encode === 'gzip') return gzipSync(bytes)
  return encode === 'utf-16be' ? bytes.swap16() : bytes
}

const WRONG: readonly unknown[] = [null, true, 1.5, '7', [], {}]

/** Yields the document once for each of its places and each value that is wrong there. */
export function* wrongEverywhere(document: Values): Generator<Values> {
  for (const path of placesIn(document)) {
    for (const wrong of WRONG) {
      const copy = structuredClone(document)
      const parent = path.slice(0, -1).reduce<unknown>((value, key) => (value as Values)[key], copy)
      ;(parent as Record<string, unknown>)[path.at(-1) as string] = wrong
      yield copy
    }
  }
}

function placesIn(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, each]) => [[...path, key], ...placesIn(each, [...path, key])])
}
