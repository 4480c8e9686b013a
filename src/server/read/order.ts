/** The orders to a reader process, and its answers. */

/** Maximum length of a client's SQL, in characters: parsing takes time and memory that nothing else bounds. */
export const MAX_SQL_LENGTH = 20_000
/** After that, the process that reads is killed: for a client's SQL, and for our own, whose cost is known. */
export const WITHIN_MS = { foreign: 5000, ours: 15_000 }

export type Statement = {
  readonly sql: string
  /** For its parameters, such as `$uf`. */
  readonly values?: Readonly<Record<string, string>>
  /** Further rows are left out. */
  readonly maxRows: number
}

export type ReadOrder = {
  /** The directory of the company's snapshots. */
  readonly lake: string
  readonly statements: readonly Statement[]
  /** Whether the SQL is a client's. */
  readonly isForeign: boolean
  /** Maximum size of the answer to all statements together, as JSON. */
  readonly maxBytes: number
  /** Longer texts are cut. */
  readonly maxText: number
}

/** How the name of a process's own directory begins. */
export const OWN_DIRECTORY = 'editais-sync-mcp-'

/** A process works in its own directory, and nothing else is ever written. */
export type PlacedOrder = ReadOrder & { readonly temporary: string }

/** JSON, in which invisible characters of texts are visible. */
export type VisibleValue =
  | null
  | boolean
  | number
  | string
  | readonly VisibleValue[]
  | { readonly [name: string]: VisibleValue }

export type Rows = {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly VisibleValue[])[]
  /** Whether there are more rows than these. */
  readonly isCut: boolean
}

/** A row as an object, without what is NULL. */
export type ReadRecord = { readonly [name: string]: VisibleValue }

/** Returns rows as objects, without what is NULL. */
export function makeRecords({ columns, rows }: Rows): ReadRecord[] {
  return rows.map(row => {
    const pairs = columns.map((name, index) => [name, row[index] ?? null] as const)
    return Object.fromEntries(pairs.filter(([, value]) => value !== null))
  })
}

/** The source of the rows. */
export type ReadSource = {
  readonly company: string
  /** The name of the snapshot. */
  readonly snapshot: string
  /** ISO 8601. */
  readonly publishedAt: string
}

export type ReadAnswer = ReadSource & { readonly results: readonly Rows[] }

/** The messages of a reader process: first `opened`, then one of the others. */
export type ReadMessage =
  | { readonly kind: 'opened' }
  | { readonly kind: 'answer'; readonly answer: ReadAnswer }
  /** A sentence for the client: without a path of this machine. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Why it failed, for the log. */
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'too_large' }

/**
 * Characters that a person does not see, but a program reads: controls, directions, joiners, tags, variation selectors,
 * fillers, private and unassigned ones, halves of surrogates. Line feeds and tabs stay. They are named, not removed as in
 * `cleanText`: a model must know that a text has something to hide.
 */
const INVISIBLE = /(?:(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800])+/gu

/** Returns the text with each run of invisible characters as ⟦U+200B⟧, or ⟦U+E0041 and 11 more⟧. */
export function revealText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(INVISIBLE, run => {
    const [first = ''] = run
    const code = (first.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')
    const more = [...run].length - 1
    return more === 0 ? `⟦U+${code}⟧` : `⟦U+${code} and ${more} more⟧`
  })
}

/** Makes every text and name in a value visible; cuts longer texts, and states how much is missing. */
export function revealValue(value: string, maxText: number): string
export function revealValue(value: unknown, maxText: number): VisibleValue
export function revealValue(value: unknown, maxText: number): VisibleValue {
  if (typeof value === 'string') return cut(revealText(value), maxText)
  if (value === null || typeof value !== 'object') return value as null | boolean | number
  if (Array.isArray(value)) return value.map(one => revealValue(one, maxText))
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [cut(revealText(name), maxText), revealValue(one, maxText)]),
  )
}

/** Cuts a text after so many characters, and states how many are missing. */
export function cut(text: string, maxText: number): string {
  if (text.length <= maxText) return text
  // Not between the halves of a character.
  const kept = text.slice(0, maxText).replace(/[\uD800-\uDBFF]$/, '')
  return `${kept}… (cut: ${text.length - kept.length} more characters)`
}

/** Returns a value that was written as JSON; integers beyond those of a double are texts with all their digits. */
export function parseValue(json: string): unknown {
  return JSON.parse(json, (_, value, context?: { source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? String(value))
      : value,
  )
}
