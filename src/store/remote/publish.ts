import { join } from 'node:path'
import { runConcurrently } from '#src/platform/concurrency.ts'
import type { Database } from '#src/store/warehouse/database.ts'
import { type Manifest, publishedFiles, readManifest, snapshotsDirectory } from '../lake/manifest.ts'
import { REMOTE_TABLES, type RemoteTable } from './columns.ts'
import { commit, hasFile, openTable, type RemoteFile, type Table } from './iceberg/commit.ts'
import { type ObjectStore, RemoteError } from './objects.ts'
import { statisticsOf } from './statistics.ts'

/** `lake/latest.json` of a company in the object store: what readers that want all tables at once begin with. */
export type Latest = {
  readonly format: 1
  readonly company: string
  /** The last snapshot of the local lake that all tables have; null before the first. */
  readonly snapshot: string | null
  readonly data_version: number
  /** The time of that snapshot in all tables. */
  readonly published_at: string | null
  /** The version of each table's Iceberg metadata. */
  readonly tables: Readonly<Record<string, number>>
  /** A publish that has begun. The next one finishes it, because some tables may have its snapshot already. */
  readonly pending: { readonly snapshot: string; readonly at: string } | null
}

export type RemotePublished = {
  readonly snapshot: string
  /** False if the snapshot was there. */
  readonly written: boolean
  readonly uploaded: number
  readonly bytesUploaded: number
}

export type RemoteRequest = {
  /** The local one. */
  readonly lake: string
  /** Of its latest snapshot. */
  readonly manifest: Manifest
  readonly now: Date
  /** Called before the first table gets a snapshot: from then on, its local files must stay until it is published. */
  readonly onBegin: (snapshot: string) => Promise<void>
}

const UPLOADS_AT_ONCE = 4

/** The company's part of the object store. */
export function latestKey(company: string): string {
  return `${company}/lake/latest.json`
}

/** Where a table's objects are. */
export function tableKey(company: string, table: string): string {
  return `${company}/lake/${table}`
}

/** With the tag of the object that it is from. */
export type Versioned = { readonly latest: Latest; readonly tag: string }

/** Null if nothing was published yet. */
export async function readLatest(store: ObjectStore, company: string): Promise<Versioned | null> {
  const found = await store.get(latestKey(company))
  return found && { latest: JSON.parse(found.bytes.toString()) as Latest, tag: found.tag }
}

/**
 * Brings a snapshot of the local lake to the object store: uploads files that are not there, commits each table, then
 * replaces `latest.json`. Whatever is interrupted, the next publish finishes; what is done is not done again.
 * @throws RemoteError if the store refuses, or somebody else wrote there.
 */
export async function publishRemote(
  store: ObjectStore,
  db: Database,
  { lake, manifest, now, onBegin }: RemoteRequest,
): Promise<RemotePublished> {
  const { snapshot, company } = manifest
  let published = await readLatest(store, company)
  assertNotOlder(published?.latest ?? null, manifest)
  const uploads = { uploaded: 0, bytesUploaded: 0 }
  const { pending = null, snapshot: before = null } = published?.latest ?? {}
  if (before === snapshot && pending === null) return { snapshot, written: false, ...uploads }
  const context = { store, db, lake, onBegin, uploads }
  if (pending !== null && pending.snapshot !== snapshot) {
    const unfinished = await readManifest(join(snapshotsDirectory(lake), pending.snapshot))
    // Without its files, for example on another machine, some tables stay one snapshot ahead until the next.
    if (unfinished) published = await bring(context, published, unfinished, new Date(pending.at))
  }
  await bring(context, published, manifest, timeAfter(published?.latest ?? null, snapshot, now))
  return { snapshot, written: true, ...uploads }
}

type Context = {
  readonly store: ObjectStore
  readonly db: Database
  readonly lake: string
  readonly onBegin: RemoteRequest['onBegin']
  readonly uploads: { uploaded: number; bytesUploaded: number }
}

async function bring(
  context: Context,
  before: Versioned | null,
  manifest: Manifest,
  at: Date,
): Promise<Versioned> {
  const { store } = context
  const { company, snapshot, data_version } = manifest
  const latest = before?.latest ?? none(company)
  const parts = await Promise.all(
    REMOTE_TABLES.map(async table => {
      const files = filesOf(table, manifest)
      const base = await openTable(store, tableKey(company, table.name), latest.tables[table.name] ?? 0)
      return { table, files, base }
    }),
  )
  // Marts that are not written as files have none.
  const present = parts.filter(({ files }) => files.length > 0)
  await uploadFiles(context, manifest, present)
  await context.onBegin(snapshot)
  const begun: Latest = { ...latest, pending: { snapshot, at: at.toISOString() } }
  const begunTag = await replaceLatest(store, begun, before?.tag ?? null)
  const tables: Record<string, number> = {}
  for (const { table, files, base } of present) {
    const local = new Map(files.map(file => [file.path, file.local]))
    tables[table.name] = await commit(store, base, {
      table,
      files,
      snapshot,
      at,
      statisticsOf: async ({ path }) =>
        await statisticsOf(context.db, placeOf(context, manifest, local.get(path) as string), table.columns),
    })
  }
  const done: Latest = {
    ...begun,
    snapshot,
    data_version,
    published_at: at.toISOString(),
    tables,
    pending: null,
  }
  return { latest: done, tag: await replaceLatest(store, done, begunTag) }
}

function none(company: string): Latest {
  return {
    format: 1,
    company,
    snapshot: null,
    data_version: 0,
    published_at: null,
    tables: {},
    pending: null,
  }
}

function placeOf({ lake }: Context, { snapshot }: Manifest, path: string): string {
  return join(snapshotsDirectory(lake), snapshot, path)
}

/** Uploads what the tables do not have, a few files at a time. */
async function uploadFiles(
  context: Context,
  manifest: Manifest,
  parts: readonly { readonly files: readonly File[]; readonly base: Table }[],
): Promise<void> {
  const { store, uploads } = context
  const waiting = parts.flatMap(({ files, base }) =>
    files
      .filter(file => !hasFile(base, store, file))
      .map(file => ({ ...file, key: `${base.directory}/${file.path}` })),
  )
  await runConcurrently(UPLOADS_AT_ONCE, async stopped => {
    for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift()) {
      const { key, local, bytes, sha256 } = next
      const path = placeOf(context, manifest, local)
      // One of a publish that died may be there.
      if (!(await store.upload(key, { path, bytes, sha256 }))) continue
      uploads.uploaded += 1
      uploads.bytesUploaded += bytes
    }
  })
}

type File = RemoteFile & {
  /** Relative to the local snapshot's directory. */
  readonly local: string
  readonly sha256: string
}

/** Named by their content, and never replaced. */
function filesOf(table: RemoteTable, manifest: Manifest): File[] {
  const isOf = (path: string) => path.startsWith(`${table.name}/`) || path === `marts/${table.name}.parquet`
  return publishedFiles(manifest)
    .filter(({ path }) => isOf(path))
    .map(({ path, month, rows, bytes, sha256 }) => ({
      local: path,
      path: `data/${month ?? 'all'}-${sha256}.parquet`,
      rows,
      bytes,
      sha256,
    }))
}

/**
 * Replaces `latest.json`, if it still is the version that `before` names.
 * @param before its tag; null if there must be none.
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

/** Later than the snapshot before, though clocks can go back. */
function timeAfter(before: Latest | null, snapshot: string, now: Date): Date {
  const { pending, published_at } = before ?? {}
  if (pending?.snapshot === snapshot) return new Date(pending.at)
  const last = Math.max(Date.parse(published_at ?? '') || 0, Date.parse(pending?.at ?? '') || 0)
  return new Date(Math.max(now.getTime(), last + 1))
}

/** @throws RemoteError if the store has newer data: this lake was restored from a backup, or another worker published. */
function assertNotOlder(latest: Latest | null, manifest: Manifest): void {
  if (latest === null || latest.data_version <= manifest.data_version) return
  throw new RemoteError(
    `The object store has version ${latest.data_version} of ${manifest.company}'s data, this lake version ${manifest.data_version}: it is an older copy, or another worker syncs this company. Nothing was published.`,
  )
}
