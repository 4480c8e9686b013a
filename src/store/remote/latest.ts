import type { TableKeeper } from './format.ts'
import { type ObjectStore, RemoteError } from './objects.ts'

/** `lake/latest.json` of a company in the object store: where readers of several tables begin. */
export type Latest = {
  readonly format: 1
  readonly company: string
  /** The last snapshot of the local lake that all tables have; null before the first. */
  readonly snapshot: string | null
  readonly data_version: number
  /** The time of that snapshot in all tables. */
  readonly published_at: string | null
  /** A publish that has begun. The next one finishes it, because some tables may have its snapshot already. */
  readonly pending: { readonly snapshot: string; readonly at: string } | null
} & {
  /** The version of each table, by the formats that are published; in a catalog, the id of its snapshot. */
  readonly [format in TableKeeper]?: Readonly<Record<string, number>>
}

/** With the tag of the object that it was read from. */
export type Versioned = { readonly latest: Latest; readonly tag: string }

export function nothingPublished(company: string): Latest {
  return { format: 1, company, snapshot: null, data_version: 0, published_at: null, pending: null }
}

/** Where a table's objects are. */
export function tableKey(company: string, table: string): string {
  return `${company}/lake/${table}`
}

/** All tables that were published in these formats. */
export function tableNames(latest: Latest, formats: ReadonlyMap<TableKeeper, unknown>): ReadonlySet<string> {
  return new Set([...formats.keys()].flatMap(format => Object.keys(latest[format] ?? {})))
}

function latestKey(company: string): string {
  return `${company}/lake/latest.json`
}

/** Null if nothing was published yet. */
export async function readLatest(store: ObjectStore, company: string): Promise<Versioned | null> {
  const found = await store.get(latestKey(company))
  return found && { latest: JSON.parse(found.bytes.toString()) as Latest, tag: found.tag }
}

/**
 * Replaces `latest.json`, if it is still the version that `before` names.
 * @param before its tag; null if the object must not exist yet.
 * @returns its new tag.
 * @throws RemoteError if another worker was faster.
 */
export async function replaceLatest(
  store: ObjectStore,
  latest: Latest,
  before: string | null,
): Promise<string> {
  const key = latestKey(latest.company)
  const body = Buffer.from(`${JSON.stringify(latest, null, 2)}\n`)
  const tag = await store.put(key, body, before === null ? { absent: true } : { tag: before })
  if (tag !== null) return tag
  // The answer of our own write may have been lost.
  const found = await store.get(key)
  if (found?.bytes.equals(body)) return found.tag
  throw new RemoteError(`${store.root}/${key} was replaced by another worker. The next run publishes.`)
}
