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
export function records({ columns, rows }: Rows): ReadRecord[] {
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
