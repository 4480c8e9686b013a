import { isUtf8 } from 'node:buffer'
import type { z } from 'zod'
import { ANALYSIS } from '#schema/analysis.ts'
import { isPlainPathSegment, NOTICE } from '#schema/notice.ts'
import { readPncpId } from '#schema/pncp_id.ts'
import { type Field, type Fields, listFieldPaths, type ValueType } from '#schema/record.ts'
import { cleanText } from '#schema/text_key.ts'
import { normalizeDateTime, unifySpelling } from '#schema/times.ts'
import { analysis, notice, noticePage } from '#schema/zod.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import {
  haveSameMeaning,
  mayHoldLoneSurrogate,
  nestsDeeperThan,
  replaceLoneSurrogates,
  splitElements,
} from '#src/lib/json.ts'

/** A usable document. `document` is its normalised JSON text: one line, every string well formed. */
export type Accepted = {
  readonly ok: true
  readonly editalId: string
  readonly document: string
  /** The received bytes, if they are exactly the document: then nothing needs to be encoded again. */
  readonly bytes?: Buffer
  /** The notice's `updated_at` exactly as the API sent it; empty for an analysis, which has none. */
  readonly updatedAt: string
  /** The document with its times in one spelling: the same for every spelling that says the same. */
  readonly compared: string
  readonly drift: readonly Drift[]
  /** The received bytes, if the document does not hold all their information. */
  readonly raw?: Buffer
}

/** A record that cannot be used. It is quarantined with its bytes. */
export type Rejected = {
  readonly ok: false
  readonly editalId: string | null
  readonly reason: string
  readonly path: string
  readonly raw: Buffer
}

export type Verdict = Accepted | Rejected

export type Page = {
  readonly notices: readonly Verdict[]
  readonly total: number
  readonly limit: number
  readonly offset: number
  readonly drift: readonly Drift[]
}

/** For a document that differs everywhere, the first differences are enough. */
const MAX_DRIFT_PER_DOCUMENT = 50
const MAX_SAMPLE_CHARACTERS = 200
/** Far deeper than any contract field; deeper documents risk overflowing the stacks of their readers. */
const MAX_DEPTH = 100
/** JSON.parse takes 120 bytes per level, so a body of only brackets would take 2 GB. Deeper bodies are not parsed. */
const MAX_PARSED_DEPTH = 500_000
/** All pages are planned before the second one is read, so `total` needs a bound. */
const MAX_TOTAL = 1_000_000

type Path = readonly PropertyKey[]
type Schema = {
  readonly root: string
  readonly shape: z.ZodType
  readonly dateTimes: readonly string[]
  /**
   * Free-form parts and elements of lists of texts, by path. They are published as JSON text: any content is kept, and
   * differences are only reported.
   */
  readonly freeForm: readonly string[]
}

function makeSchema(root: string, shape: z.ZodType, fields: Fields): Schema {
  const all = [...listFieldPaths(fields)]
  return {
    root,
    shape,
    // The contract has date-times only at the top of a document.
    dateTimes: Object.keys(fields).filter(name => findType(fields[name]) === 'date-time'),
    freeForm: all.flatMap(([path, field]) => {
      if (findType(field) === 'strings') return [`${path}[]`]
      return findType(field) === 'object' || ('part' in field && field.part.freeForm) ? [path] : []
    }),
  }
}

function findType(field: Field | undefined): ValueType | null {
  return field && 'type' in field ? field.type : null
}

const NOTICE_SCHEMA = makeSchema('notice', notice, NOTICE)
const ANALYSIS_SCHEMA = makeSchema('analysis', analysis, ANALYSIS)

/**
 * Checks the body of `GET /editais/{id}/analysis` against the contract (docs/contract.md#analysis).
 * @param expectedId the requested notice; a body about another one is rejected.
 */
export function validateAnalysis(bytes: Buffer, expectedId: string): Verdict {
  return validateBody(bytes, expectedId, ANALYSIS_SCHEMA)
}

/** Checks the body of `GET /editais/{id}` against docs/contract.md#notice. */
export function validateNotice(bytes: Buffer, expectedId: string): Verdict {
  return validateBody(bytes, expectedId, NOTICE_SCHEMA)
}

/**
 * Checks a list response (docs/contract.md#page) and each of its notices separately.
 * @returns the reason, as the end of a sentence, if the page as a whole cannot be read.
 */
export function validatePage(bytes: Buffer): Page | string {
  const text = decode(bytes)
  const parsed = parse(text)
  if ('reason' in parsed) return `${parsed.reason} (it begins with ${JSON.stringify(text.slice(0, 40))})`
  const { value: body, escaped } = parsed
  const page = noticePage.safeParse(body)
  if (!page.success) {
    const [issue] = page.error.issues
    return `"${issue?.path.join('.')}" is missing or does not match the contract`
  }
  if (page.data.total > MAX_TOTAL) return `"total" is ${page.data.total}, more than the limit of ${MAX_TOTAL}`
  const { editais, total, limit, offset, count: _count, ...unknown } = page.data
  // The page is split only if one of its notices needs its own bytes. In Latin-1 a character is a byte, so
  // the parts are exact in any encoding that writes JSON syntax as ASCII.
  let parts: readonly string[] | null | undefined
  const source = (index: number): Buffer => {
    parts ??= splitElements(withoutMark(bytes).toString('latin1'), 'editais')
    return Buffer.from(parts?.[index] ?? JSON.stringify(editais[index]), parts?.[index] ? 'latin1' : 'utf8')
  }
  const plain = !escaped && isUtf8(bytes) && isShallow(body) && text === JSON.stringify(body)
  return {
    notices: editais.map((value, index) =>
      validate({ value, escaped, source: () => source(index), plain, schema: NOTICE_SCHEMA }),
    ),
    total,
    limit,
    offset,
    drift: Object.entries(unknown)
      .slice(0, MAX_DRIFT_PER_DOCUMENT)
      .map(([key, value]) =>
        drift(`page.${key}`, 'unknown_field', isShallow(value) ? value : '(nested too deeply)'),
      ),
  }
}

/** Returns whether nesting is bounded: JSON.stringify recurses if an object's keys are numbers, and could overflow the stack. */
function isShallow(value: unknown): boolean {
  return !depthExceeds(value, MAX_DEPTH)
}

function validateBody(bytes: Buffer, expectedId: string, schema: Schema): Verdict {
  const text = decode(bytes)
  const reject = (reason: string, path: string): Rejected => ({
    ok: false,
    editalId: expectedId,
    reason,
    path,
    raw: bytes,
  })
  const parsed = parse(text)
  if ('reason' in parsed) return reject(parsed.reason, '$')
  const verdict = validate({ ...parsed, source: () => bytes, text, schema })
  if (!verdict.ok) return reject(verdict.reason, verdict.path)
  if (verdict.editalId !== expectedId) return reject('the document is about another notice', 'id')
  return verdict
}

/** Returns the bytes without a UTF-8 byte order mark, which Latin-1 does not recognise. */
function withoutMark(bytes: Buffer): Buffer {
  return isMarked(bytes) ? bytes.subarray(3) : bytes
}

function isMarked(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
}

function decode(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/** `escaped`: strings in the value may hold lone surrogates. */
type Parsed = { readonly value: object; readonly escaped: boolean }

function parse(text: string): Parsed | { reason: string } {
  if (text.trim() === '') return { reason: 'the body is empty' }
  if (nestsDeeperThan(text, MAX_PARSED_DEPTH)) return { reason: 'the body is nested too deeply' }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { reason: 'the body is not a JSON object' }
    }
    return { value, escaped: mayHoldLoneSurrogate(text) }
  } catch {
    return { reason: looksCut(text) ? 'the body is truncated JSON' : 'the body is not JSON' }
  }
}

function looksCut(text: string): boolean {
  return /^\s*[[{]/.test(text) && !/[\]}]\s*$/.test(text)
}

type Candidate = {
  readonly value: unknown
  readonly escaped: boolean
  /** The received bytes. */
  readonly source: () => Buffer
  /** The received bytes as text, if it is at hand. */
  readonly text?: string
  /** The bytes are known to hold no more information than the value. */
  readonly plain?: boolean
  readonly schema: Schema
}

function validate({ value: parsed, escaped, source, text, plain = false, schema }: Candidate): Verdict {
  const id = readId(parsed)
  const reject = (reason: string, path: string): Rejected => ({
    ok: false,
    editalId: id !== null && isPlainPathSegment(id) ? id : null,
    reason,
    path,
    raw: source(),
  })
  if (depthExceeds(parsed, MAX_DEPTH)) return reject('the document is nested too deeply', '$')
  // Per notice, after the depth check: one notice that is too deep must not affect the others in its page.
  const value = escaped ? replaceLoneSurrogates(parsed) : parsed
  const repaired = repair(value, schema)
  if ('reason' in repaired) return reject(repaired.reason, repaired.path)
  const accepted = value as Record<string, unknown>
  const updatedAt = String(accepted.updated_at ?? '')
  const asArrived = JSON.stringify(accepted)
  const isText = text === asArrived && isUtf8(source())
  const lossless =
    !repaired.changed &&
    areClean(accepted, schema.dateTimes) &&
    (plain || isText || meansTheSame(source(), asArrived))
  const redated = canonicalDates(accepted, schema.dateTimes)
  const document = redated ? JSON.stringify(accepted) : asArrived
  return {
    ok: true,
    editalId: id as string,
    document,
    // A byte order mark is not part of the text.
    ...(isText && !redated && !isMarked(source()) ? { bytes: source() } : {}),
    updatedAt,
    compared: comparedText(accepted, schema.dateTimes, document),
    drift: [...repaired.drift, ...unreadParts(accepted, schema)],
    ...(lossless ? {} : { raw: source() }),
  }
}

function meansTheSame(bytes: Buffer, document: string): boolean {
  return isUtf8(bytes) && haveSameMeaning(decode(bytes), document)
}

/** Returns whether the texts are clean. Otherwise, the form that SQL reads lacks characters that were sent. */
function areClean(document: Readonly<Record<string, unknown>>, fields: readonly string[]): boolean {
  return fields.every(
    field => typeof document[field] !== 'string' || cleanText(document[field]) === document[field],
  )
}

/** Rewrites date-times into the form that SQL reads. True if any changed. */
function canonicalDates(document: Record<string, unknown>, fields: readonly string[]): boolean {
  let changed = false
  for (const field of fields) {
    const moment = document[field]
    if (typeof moment !== 'string') continue
    document[field] = normalizeDateTime(moment)
    changed ||= document[field] !== moment
  }
  return changed
}

/**
 * Returns the document with its times in the usual spelling.
 * @param text the document as JSON: the result, if all its times are in that spelling already.
 */
function comparedText(
  document: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  text: string,
): string {
  const respelled = fields.flatMap(field => {
    const time = document[field]
    const usual = typeof time === 'string' ? unifySpelling(time) : time
    return usual === time ? [] : [[field, usual] as const]
  })
  return respelled.length === 0 ? text : JSON.stringify({ ...document, ...Object.fromEntries(respelled) })
}

function readId(value: unknown): string | null {
  const id = typeof value === 'object' && value !== null && 'id' in value ? value.id : null
  return typeof id === 'string' ? id : null
}

type Repaired = { drift: readonly Drift[]; changed: boolean } | { reason: string; path: string }

/**
 * Sets nullable values of a wrong type to null, in place, and reports every difference from the contract.
 * A wrong value that may not be null makes the document unusable.
 */
function repair(value: unknown, schema: Schema): Repaired {
  const issues = schema.shape.safeParse(value).error?.issues ?? []
  const found = new Map<string, Drift>()
  const nulled = new Map<string, Issue>()
  const report = (path: Path, kind: Drift['kind'], sample: unknown) => {
    const name = `${schema.root}.${fieldName(path)}`
    const known = found.get(`${kind} ${name}`)
    if (known) known.count += 1
    else if (found.size < MAX_DRIFT_PER_DOCUMENT) found.set(`${kind} ${name}`, drift(name, kind, sample))
  }
  for (const issue of issues) {
    const at = valueAt(value, issue.path)
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) report([...issue.path, key], 'unknown_field', valueAt(at, [key]))
    } else if (issue.code === 'invalid_value' && typeof at === 'string') {
      report(issue.path, 'unknown_enum', at)
    } else if (isFreeForm(issue.path, schema)) {
      report(issue.path, 'wrong_type', at)
    } else if (at === undefined || at === null || expectsArray(issue) || issue.path.length === 0) {
      return { reason: composeReason(issue, at), path: exactPath(issue.path) }
    } else {
      report(issue.path, 'wrong_type', at)
      nulled.set(exactPath(issue.path), issue)
      setAt(value, issue.path, null)
    }
  }
  if (nulled.size === 0) return { drift: [...found.values()], changed: false }
  for (const issue of schema.shape.safeParse(value).error?.issues ?? []) {
    const original = nulled.get(exactPath(issue.path))
    if (original) return { reason: composeReason(original, ''), path: exactPath(issue.path) }
  }
  return { drift: [...found.values()], changed: true }
}

/** Returns a drift if a part of a notice's identifier cannot be read. An analysis repeats the identifier, and reports nothing. */
function unreadParts({ pncp_id }: Readonly<Record<string, unknown>>, { root }: Schema): Drift[] {
  if (root !== NOTICE_SCHEMA.root || typeof pncp_id !== 'string') return []
  const isRead = Object.values(readPncpId(pncp_id)).every(part => part !== null)
  return isRead ? [] : [drift('notice.pncp_id', 'unknown_form', pncp_id)]
}

type Issue = z.core.$ZodIssue

function isFreeForm(path: Path, { freeForm }: Schema): boolean {
  const name = fieldName(path)
  return freeForm.some(part => name === part || name.startsWith(`${part}.`) || name.startsWith(`${part}[`))
}

function expectsArray(issue: Issue): boolean {
  return issue.code === 'invalid_type' && issue.expected === 'array'
}

function composeReason(issue: Issue, at: unknown): string {
  if (at === undefined || at === null) return 'a required field is missing'
  if (issue.code === 'invalid_type') return `expected ${issue.expected}`
  return issue.code === 'custom' ? `the value ${issue.message}` : 'the value does not match the contract'
}

function drift(path: string, kind: Drift['kind'], value: unknown): Drift {
  // A number beyond a double's range is Infinity here, which JSON cannot represent.
  const sample = typeof value === 'object' ? (JSON.stringify(value) ?? '') : String(value)
  return {
    path: path.slice(0, MAX_SAMPLE_CHARACTERS).toWellFormed(),
    kind,
    sample: sample.slice(0, MAX_SAMPLE_CHARACTERS).toWellFormed(),
    count: 1,
  }
}

/** Names the field at any index of the list: `requirements[].status`. */
function fieldName(path: Path): string {
  return path
    .map((key, depth) => (typeof key === 'number' ? '[]' : `${depth ? '.' : ''}${String(key)}`))
    .join('')
}

/** Names the exact place in this document: `requirements[3].status`. */
function exactPath(path: Path): string {
  return (
    path
      .map((key, depth) => (typeof key === 'number' ? `[${key}]` : `${depth ? '.' : ''}${String(key)}`))
      .join('') || '$'
  )
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (parent, key) => (typeof parent === 'object' && parent !== null ? Reflect.get(parent, key) : undefined),
    value,
  )
}

function setAt(value: unknown, path: Path, replacement: null): void {
  const parent = valueAt(value, path.slice(0, -1))
  if (typeof parent === 'object' && parent !== null)
    Reflect.set(parent, path.at(-1) as PropertyKey, replacement)
}

function depthExceeds(value: unknown, bound: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (bound === 0) return true
  const children: readonly unknown[] = Array.isArray(value) ? value : Object.values(value)
  return children.some(child => depthExceeds(child, bound - 1))
}
