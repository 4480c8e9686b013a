import { z } from 'zod'
import {
  COUNT,
  ForeignObject,
  type JsonKind,
  type ObjectStore,
  PLAIN_NAME,
  RemoteError,
  readJson,
  SNAPSHOT_NAME,
  tagIfContent,
} from '#src/lib/objects/objects.ts'
import type { TableKeeper } from './format.ts'

/** `lake/latest.json` of a company in the object store: where readers of several tables begin. */
export type Latest = {
  readonly format: 1
  readonly company: string
  /** The last snapshot of the local lake that all tables have; null before the first. */
  readonly snapshot: string | null
  readonly data_version: number
  /** The name of the raw log that `data_version` counts in. Version 0.2.0 did not write it. */
  readonly log?: string | null | undefined
  /** The last segment of the log whose runs it shows. Version 0.2.0 did not write it. */
  readonly applied_segment?: number | undefined
  /** Equal for snapshots of several hosts with the same content. Version 0.2.0 did not write it. */
  readonly content?: string | undefined
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

/** Dates far ahead would reach the end of time: each publish is later than the one before it. */
const TIME = z.string().regex(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/)
const SHA256 = /^[0-9a-f]{64}$/
const RUN_ID = /^[\w.:-]{1,200}$/
const VERSIONS = z.record(z.string().regex(PLAIN_NAME), COUNT).optional()
const LATEST: JsonKind<Latest> = {
  name: 'description of what was published',
  mostBytes: 1024 * 1024,
  shape: z.object({
    format: z.literal(1),
    company: z.string(),
    snapshot: SNAPSHOT_NAME.nullable(),
    data_version: COUNT,
    log: z.string().regex(RUN_ID).nullable().optional(),
    applied_segment: COUNT.optional(),
    content: z.string().regex(SHA256).optional(),
    published_at: TIME.nullable(),
    pending: z.object({ snapshot: SNAPSHOT_NAME, at: TIME }).nullable(),
    iceberg: VERSIONS,
    catalog: VERSIONS,
    delta: VERSIONS,
  }) as z.ZodType<Latest>,
}

export function nothingPublished(company: string): Latest {
  return { format: 1, company, snapshot: null, data_version: 0, published_at: null, pending: null }
}

/** Returns where a table's objects are. */
export function tableKey(company: string, table: string): string {
  return `${company}/lake/${table}`
}

/** Returns all tables that were published in these formats. */
export function tableNames(latest: Latest, formats: ReadonlyMap<TableKeeper, unknown>): ReadonlySet<string> {
  return new Set([...formats.keys()].flatMap(format => Object.keys(latest[format] ?? {})))
}

function latestKey(company: string): string {
  return `${company}/lake/latest.json`
}

/**
 * Returns null if nothing was published yet.
 * @throws ForeignObject if it is not what this program wrote for this company.
 */
export async function readRemoteLatest(store: ObjectStore, company: string): Promise<Versioned | null> {
  const key = latestKey(company)
  const read = await readJson(store, key, LATEST)
  if (read === null) return null
  const { value: latest, found } = read
  if (latest.company !== company)
    throw new ForeignObject(`${store.root}/${key}`, 'is that of another company')
  return { latest, tag: found.tag }
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
  const own = await tagIfContent(store, key, body)
  if (own !== null) return own
  throw new RemoteError(`${store.root}/${key} was replaced by another worker. The next run publishes.`)
}
