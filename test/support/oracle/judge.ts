import { isUtf8 } from 'node:buffer'
import { type Kind, MEMBERS, type Members, type Spec } from './contract.ts'
import { identifierOf, isUnread } from './identifier.ts'
import { type Document, isObject, parsed, sameTokens } from './json.ts'
import { microsOf, seen } from './moments.ts'

/*
 * The expected result for a document, by the contract (docs/contract.md) and by the rules for deviations
 * (docs/internals/fetch.md#validation). It shares no code with `src/` or `schema/`: if the two differ, one of them is
 * wrong.
 */

/** A document may have at most 100 levels of brackets. */
const MAX_LEVELS = 100

export type Root = 'notice' | 'analysis'

export type Judgement =
  /** Any of these places is a correct location of the fault. */
  | { readonly usable: false; readonly faults: ReadonlySet<string> }
  | {
      readonly usable: true
      /** Strings are well formed, wrong types null, date-times as written. */
      readonly document: Document
      /** `<kind> <path>` of every deviation from the contract. */
      readonly drift: ReadonlySet<string>
      /** Whether the document holds everything in the bytes. */
      readonly whole: boolean
    }

/** @param expectedId the requested notice; null if the document itself identifies it. */
export function judge(bytes: Buffer, root: Root, expectedId: string | null): Judgement {
  const sent = new TextDecoder('utf-8').decode(bytes)
  const value = parsed(sent)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return unusable('$')
  if (levels(value, 0) > MAX_LEVELS) return unusable('$')
  const found: Found = { faults: new Set(), drift: new Set(), lost: false }
  const document = wellFormed(value) as Document
  checkMembers(document, MEMBERS[root], { exact: '', name: root, open: false }, found)
  if (expectedId !== null && document.id !== expectedId) found.faults.add('id')
  if (found.faults.size > 0) return { usable: false, faults: found.faults }
  if (root === 'notice' && isUnread(identifierOf(document.pncp_id)))
    found.drift.add(reported('unknown_form', 'notice.pncp_id'))
  const whole = !found.lost && isUtf8(bytes) && sameTokens(sent, JSON.stringify(document))
  return { usable: true, document, drift: found.drift, whole }
}

function unusable(place: string): Judgement {
  return { usable: false, faults: new Set([place]) }
}

/** Levels of brackets; stops counting beyond the limit, so that a deep document cannot overflow the stack. */
function levels(value: unknown, above: number): number {
  if (typeof value !== 'object' || value === null) return above
  if (above > MAX_LEVELS) return above
  return Object.values(value).reduce<number>(
    (most, each) => Math.max(most, levels(each, above + 1)),
    above + 1,
  )
}

function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(wellFormed)
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key.toWellFormed(), wellFormed(each)]),
  )
}

type Found = { readonly faults: Set<string>; readonly drift: Set<string>; lost: boolean }
/** The place in this document, its name in reports, and whether unknown members are allowed there. */
type Place = { readonly exact: string; readonly name: string; readonly open: boolean }

function checkMembers(object: Document, members: Members, place: Place, found: Found): void {
  const known = new Set<string>()
  for (const [declared, spec] of Object.entries(members)) {
    const name = declared.replace('!', '')
    known.add(name)
    const at = {
      exact: place.exact ? `${place.exact}.${name}` : name,
      name: `${place.name}.${name}`,
      open: place.open,
    }
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    if (value === undefined || value === null) {
      if (name !== declared) found.faults.add(at.exact)
    } else if (!check(value, spec, at, found)) {
      found.drift.add(reported('wrong_type', at.name))
      if (name !== declared) found.faults.add(at.exact)
      else if (!place.open) {
        object[name] = null
        found.lost = true
      }
    }
  }
  if (place.open) return
  for (const name of Object.keys(object)) {
    if (!known.has(name)) found.drift.add(reported('unknown_field', `${place.name}.${name}`))
  }
}

/** False if the value as a whole violates the contract. */
function check(value: unknown, spec: Spec, at: Place, found: Found): boolean {
  if (spec.is === 'list') {
    if (!Array.isArray(value)) {
      found.faults.add(at.exact)
      return true
    }
    for (const [index, each] of value.entries()) {
      const here = { exact: `${at.exact}[${index}]`, name: `${at.name}[]`, open: false }
      if (!check(each, spec.each, here, found)) found.faults.add(here.exact)
    }
    return true
  }
  if (spec.is === 'free') {
    const fits = spec.kind === 'text' ? typeof value === 'string' : isObject(value)
    if (!fits) found.drift.add(reported('wrong_type', at.name))
    else if (spec.members) checkMembers(value as Document, spec.members, { ...at, open: true }, found)
    return true
  }
  if (spec.is === 'object') {
    if (isObject(value)) checkMembers(value, spec.members, { ...at, open: false }, found)
    return isObject(value)
  }
  if (spec.words && typeof value === 'string' && !spec.words.includes(value)) {
    found.drift.add(reported('unknown_enum', at.name))
  }
  const isRight = isOf(spec.is, value)
  if (isRight && spec.is === 'moment' && seen(String(value)) !== value) found.lost = true
  return isRight
}

function isOf(kind: Kind, value: unknown): boolean {
  if (kind === 'text') return typeof value === 'string'
  if (kind === 'number') return Number.isFinite(value)
  if (kind === 'integer') return Number.isSafeInteger(value)
  if (kind === 'boolean') return typeof value === 'boolean'
  if (kind === 'moment') return typeof value === 'string' && microsOf(value) !== null
  return typeof value === 'string' && isPlainId(value)
}

function isPlainId(id: string): boolean {
  if (id === '.' || id === '..' || id.length === 0 || id.length > 200) return false
  return Array.from(id).every(sign =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:@+=-'.includes(sign),
  )
}

function reported(kind: string, path: string): string {
  return `${kind} ${path.slice(0, 200).toWellFormed()}`
}
