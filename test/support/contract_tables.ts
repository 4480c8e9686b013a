import { readFileSync } from 'node:fs'

/**
 * The tables of docs/contract.md as data. What tests expect of documents comes from here: the contract is written by
 * hand, and does not depend on `schema/`.
 */

const CONTRACT = readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8')

export type ContractField = {
  readonly name: string
  /** As the contract words it: `string`, `string, date-time`, `array of Item`, `object (free-form)`, … */
  readonly type: string
  /** `always`, `may be absent` or `may be absent or null`. */
  readonly presence: string
  readonly values: readonly string[]
}

/** Headings of the tables for the objects and lists of an analysis. */
export const PARTS = {
  verdict: 'Verdict',
  overview: 'Overview',
  pricing: 'Pricing',
  orgao_report: 'Payment report',
} as const
export const LISTS = { requirements: 'Requirement', items: 'Item', alerts: 'Alert' } as const

export const quoted = (text: string) => [...text.matchAll(/`([^`]*)`/g)].map(([, name]) => name ?? '')

/** The contract's text from a heading to the next. */
export function partBelow(heading: string): string {
  const part = CONTRACT.split(/\n#+ /).find(each => each.startsWith(`${heading}\n`))
  if (part === undefined) throw new Error(`docs/contract.md has no heading ${heading}`)
  return part
}

/** The cells of the contract's table below a heading, without the markup of links. */
export function tableBelow(heading: string): string[][] {
  const [, , ...rows] = partBelow(heading)
    .split('\n')
    .filter(line => line.startsWith('|'))
  return rows.map(row =>
    row
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .split('|')
      .slice(1, -1)
      .map(cell => cell.trim()),
  )
}

const fieldsByHeading = new Map<string, readonly ContractField[]>()

/** The rows of a table of fields, one for each field that a row names. */
export function fieldsBelow(heading: string): readonly ContractField[] {
  return fieldsByHeading.getOrInsertComputed(heading, readFields)
}

function readFields(heading: string): ContractField[] {
  return tableBelow(heading).flatMap(([names = '', type = '', presence = '', meaning = '']) => {
    const values = quoted(/One of: (.*)$/.exec(meaning)?.[1] ?? '').map(value => value.replace(/^""$/, ''))
    return quoted(names).map(name => ({ name, type, presence, values }))
  })
}

/** The names of a table's fields of these types. */
export function namesBelow(heading: string, isWanted: (type: string) => boolean): string[] {
  return fieldsBelow(heading)
    .filter(({ type }) => isWanted(type))
    .map(({ name }) => name)
}

export const isMoment = (type: string) => type === 'string, date-time'
/** Published as JSON text. */
export const isJson = (type: string) => type === 'object (free-form)' || type === 'array of string'
/** One JSON value that is not a time. */
export const isScalar = (type: string) =>
  /^(string(, enum)?|number( \(double\))?|integer|boolean)$/.test(type)
