import { ANALYSIS, REPEATED_FIELDS } from '#schema/analysis.ts'
import { NOTICE } from '#schema/notice.ts'
import type { Field, Fields } from '#schema/record.ts'
import { listPublishedColumns, type Table } from '#schema/tables.ts'
import { hashContent } from '#src/lib/hash.ts'
import { identifier } from './quoted.ts'

/**
 * Texts beyond what the tables can carry. DuckDB works on 2,048 rows at once, whatever their texts are: with 32 KiB a row, these
 * are 64 MB. The raw log has the whole document, and so has the table `whole_documents`, from which it is served.
 */

/**
 * Maximum size of the texts of one row of a table, in bytes of UTF-8. If they have more, the longest ones are cut to one length
 * that fits. The longest row of 1,710 real notices has 1,137.
 */
export const MAX_ROW_BYTES = 32 * 1024

/** A text or a part that would keep less than this is replaced as a whole. */
const MIN_KEPT_BYTES = 100
const HASH_CHARACTERS = 16

/** A document that a line of the log can carry. */
export type DocumentKind = 'notice' | 'analysis'

/** A value of a document that is cut in the tables. */
export type Cut = {
  /** `items[].descricao`. */
  readonly path: string
  /** The whole value's, in UTF-8; as JSON text unless it is a text. */
  readonly bytes: number
}

/** The part of a document that the tables read, and what is cut in it. */
type Carried = { readonly document: object; readonly cuts: readonly Cut[] }

/** The fields with columns in tables that this document fills. */
const FIELDS: Readonly<Record<DocumentKind, Fields>> = {
  notice: NOTICE,
  analysis: Object.fromEntries(Object.entries(ANALYSIS).filter(([name]) => !REPEATED_FIELDS.includes(name))),
}

type Json = Record<string, unknown>
/** A value with a column of its own; `of` is a copy, so it can be replaced in place. */
type Unit = { readonly of: Json; readonly name: string; readonly path: string; readonly bytes: number }

/**
 * Returns a document as the tables carry it: only its fields with columns, each row's texts within MAX_ROW_BYTES. The
 * same document always gives the same.
 */
export function carryDocument(kind: DocumentKind, document: object): Carried {
  const copy: Json = {}
  const cuts: Cut[] = []
  const row = collectUnits(document as Json, copy, FIELDS[kind], kind)
  for (const [name, field] of Object.entries(FIELDS[kind])) {
    const list = (document as Json)[name]
    if (!('each' in field) || !Array.isArray(list)) continue
    copy[name] = list.map((element: Json) => {
      const own: Json = {}
      cuts.push(...cutRow(collectUnits(element, own, field.each.fields, `${kind}.${name}[]`)))
      return own
    })
  }
  return { document: copy, cuts: [...cutRow(row), ...cuts] }
}

/** Cuts a document that is JSON text as `carryDocument` does; returns the text itself if nothing in it can be too long. */
export function carryText(kind: DocumentKind, text: string): string {
  return isShort(text) ? text : JSON.stringify(carryDocument(kind, JSON.parse(text)).document)
}

/** JSON text of at most this length is never cut: a unit of UTF-16 is at most three bytes of UTF-8. */
export const SHORT_LENGTH = MAX_ROW_BYTES / 3

/** Returns whether the texts of no row can have more than MAX_ROW_BYTES. */
export function isShort(json: string): boolean {
  return json.length <= SHORT_LENGTH
}

/** Returns SQL for the bytes of all texts in rows of this table, of the warehouse or a snapshot. */
export function textBytes(table: Table): string {
  const texts = listPublishedColumns(table).filter(
    ({ type, from }) => type === 'VARCHAR' && !('company' in from),
  )
  const bytes = texts.map(({ name }) => `coalesce(strlen(${identifier(name)}), 0)`)
  return `coalesce(sum(${bytes.join(' + ')}), 0)`
}

/** Returns SQL that is true if a row might have more than MAX_ROW_BYTES. @param texts SQL for each of its texts. */
export function mayBeCutSql(texts: readonly string[]): string {
  // Half of it: DuckDB may write the numbers of a JSON text with fewer characters.
  return `${texts.map(text => `coalesce(strlen(${text}), 0)`).join(' + ')} > ${MAX_ROW_BYTES / 2}`
}

/** Copies the fields of an object that have columns. Returns those with texts. */
function collectUnits(from: Json, to: Json, fields: Fields, path: string): Unit[] {
  return Object.entries(fields).flatMap(([name, field]) => {
    const value = from[name]
    if (value === undefined || 'each' in field) return []
    to[name] = value
    const at = `${path}.${name}`
    if ('part' in field && !field.part.freeForm && isObject(value)) {
      const own: Json = {}
      to[name] = own
      return collectUnits(value, own, field.part.fields, at)
    }
    // A time is part of no row's length: it is read, not carried.
    if (value === null || isTime(field)) return []
    const text = typeof value === 'string' ? value : typeof value === 'object' ? JSON.stringify(value) : ''
    return text === '' ? [] : [{ of: to, name, path: at, bytes: Buffer.byteLength(text) }]
  })
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTime(field: Field): boolean {
  return 'type' in field && field.type === 'date-time'
}

/** Cuts values of one row until they fit. */
function cutRow(units: readonly Unit[]): Cut[] {
  const total = units.reduce((sum, { bytes }) => sum + bytes, 0)
  if (total <= MAX_ROW_BYTES) return []
  const most = computeShare(
    units.map(({ bytes }) => bytes),
    MAX_ROW_BYTES,
  )
  const long = units.filter(({ bytes }) => bytes > most)
  for (const { of, name } of long) of[name] = shortened(of[name], most)
  return long.map(({ path, bytes }) => ({ path, bytes }))
}

/** Returns the length to which the longest of these must be cut so that all fit. */
function computeShare(sizes: readonly number[], most: number): number {
  let left = most
  const ascending = sizes.toSorted((a, b) => a - b)
  for (const [index, size] of ascending.entries()) {
    const share = Math.floor(left / (ascending.length - index))
    if (size > share) return share
    left -= size
  }
  return most
}

/** Returns a text, or the texts in a JSON value: a part keeps its structure if that is small enough. */
function shortened(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') return cutText(value, maxBytes)
  const whole = JSON.stringify(value)
  const texts: number[] = []
  mapTexts(value, text => {
    texts.push(Buffer.byteLength(text))
    return text
  })
  const structure = Buffer.byteLength(whole) - texts.reduce((sum, bytes) => sum + bytes, 0)
  const most = computeShare(texts, Math.max(0, maxBytes - structure))
  const short = most < MIN_KEPT_BYTES ? null : mapTexts(value, text => cutText(text, most))
  return short !== null && Buffer.byteLength(JSON.stringify(short)) <= 2 * maxBytes
    ? short
    : cutText(whole, maxBytes)
}

/** Changes every text in a value. Its nesting is bounded (`MAX_DEPTH` of `validate.ts`). */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map(one => mapTexts(one, change))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, mapTexts(one, change)]))
}

/**
 * Returns a text as tables show it: its beginning, and a mark with its length and hash, so that two long texts with the same
 * beginning remain two.
 */
function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  const mark = `… [texto cortado: ${bytes.length} bytes, sha256 ${hashContent(bytes).slice(0, HASH_CHARACTERS)}]`
  let end = Math.max(0, maxBytes - Buffer.byteLength(mark))
  // Not within a character.
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end) + mark
}
