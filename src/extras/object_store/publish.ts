import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { readAccess } from '#src/core/lake/access.ts'
import { martPath, writeMarts } from '#src/core/lake/export.ts'
import {
  listPublishedFiles,
  type Manifest,
  type MartFiles,
  readManifest,
  snapshotsDirectory,
} from '#src/core/lake/manifest.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import type { PublishedElsewhere } from '#src/extras/extra.ts'
import { type ColumnStatistics, readStatistics } from '#src/extras/object_store/tables/format.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { move, remove, syncDirectory, syncFile, writeNew } from '#src/lib/durable.ts'
import { type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'
import { MARTS } from '#src/marts/marts.ts'
import { composeRemedy, explainPublishRefusal, hasContent, hashTables } from './state.ts'
import {
  type Formats,
  type Latest,
  nothingPublished,
  type OpenTable,
  REMOTE_TABLES,
  type RemoteFile,
  type RemoteTable,
  readRemoteLatest,
  replaceLatest,
  type TableKeeper,
  tableKey,
  type Versioned,
} from './tables/format.ts'

// Small Parquet files from and to memory, through files that DuckDB reads and writes.

/**
 * Writes rows as Parquet.
 * @param columns DuckDB's types by name.
 * @param rows JSON objects; a column that a row lacks is NULL.
 */
async function parquetBytes(
  db: Database,
  temporary: string,
  columns: Readonly<Record<string, string>>,
  rows: readonly object[],
): Promise<Buffer> {
  return await inScratch(temporary, async scratch => {
    const [from, to] = [join(scratch, 'rows.json'), join(scratch, 'rows.parquet')]
    await writeFile(from, rows.map(row => `${JSON.stringify(row)}\n`).join(''))
    const types = Object.entries(columns).map(([name, type]) => `${identifier(name)}: ${literal(type)}`)
    await db.run(
      `COPY (FROM read_json(${literal(from)}, format = 'newline_delimited', columns = {${types.join(', ')}}))
       TO ${literal(to)} (FORMAT parquet, COMPRESSION zstd)`,
    )
    return await readFile(to)
  })
}

/** Reads rows from Parquet. @param sql reads the table `file`. */
export async function readParquetRows(
  db: Database,
  temporary: string,
  bytes: Buffer,
  sql: string,
): Promise<readonly object[]> {
  return await inScratch(temporary, async scratch => {
    const path = join(scratch, 'file.parquet')
    await writeFile(path, bytes)
    return await db.rows(`WITH file AS (FROM read_parquet(${literal(path)})) ${sql}`)
  })
}

async function inScratch<T>(temporary: string, use: (directory: string) => Promise<T>): Promise<T> {
  await mkdir(temporary, { recursive: true })
  const scratch = await mkdtemp(join(temporary, 'parquet-'))
  try {
    return await use(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

// The marts of snapshots that do not have them as files: made when a snapshot is published to the object store, so that
// no run takes longer for it. Kept until the next one is there, because marts computed again may be of another day.

/** The places of the snapshot's files and its marts. */
type Local = { readonly manifest: Manifest; readonly directory: string; readonly marts: string }

type Places = { readonly lake: string; readonly martsDirectory: string }

/** Adds the marts to a manifest, and makes those that are missing. */
export async function withMarts(
  db: Database,
  manifest: Manifest,
  { lake, martsDirectory }: Places,
): Promise<Local> {
  const directory = join(snapshotsDirectory(lake), manifest.snapshot)
  if (manifest.marts && manifest.marts.files.length > 0) return { manifest, directory, marts: directory }
  const own = join(martsDirectory, manifest.snapshot)
  // A snapshot from before LAKE_URL was set has no day.
  const day = manifest.marts?.day ?? manifest.created_at.slice(0, 'YYYY-MM-DD'.length)
  const marts = (await readMarts(own)) ?? (await makeMarts(db, day, directory, own))
  return { manifest: { ...manifest, marts }, directory, marts: own }
}

/** Returns the marts that `withMarts` made for this snapshot; null if they are gone. */
export async function readMarts(directory: string): Promise<MartFiles | null> {
  const text = await readFile(join(directory, 'manifest.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as MartFiles)
}

async function makeMarts(db: Database, day: string, snapshot: string, directory: string): Promise<MartFiles> {
  // Left by an attempt that died.
  await remove('temporary.remove', directory)
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY })
  const access = await readAccess(directory)
  const marts = await writeMarts(db, join(snapshot, 'catalog.duckdb'), MARTS, { directory, access, day })
  const part = join(directory, 'manifest.json.part')
  await writeNew(part, `${JSON.stringify(marts)}\n`)
  await syncFile('manifest.sync', part)
  await move('manifest.rename', part, join(directory, 'manifest.json'))
  await syncDirectory('manifest.directory', directory)
  const parent = dirname(directory)
  for (const each of [parent, dirname(parent)]) await syncDirectory('snapshots.directory', each)
  return marts
}

/** Removes the marts of all other snapshots. */
export async function keepMarts(directory: string, kept: readonly (string | null)[]): Promise<void> {
  for (const name of await readdir(directory).catch(() => [] as string[]))
    if (!kept.includes(name)) await remove('temporary.remove', join(directory, name))
}

type RemoteRequest = {
  readonly formats: Formats
  /** The directory of the local lake. */
  readonly lake: string
  /** A snapshot of the local lake, with its marts. */
  readonly local: (manifest: Manifest) => Promise<Local>
  /** For files that are not needed afterwards. */
  readonly temporary: string
  /** The manifest of the lake's latest snapshot. */
  readonly manifest: Manifest
  readonly now: Date
  /** Whether it replaces data of another log, or of a later state of this one. */
  readonly isNewLog?: boolean
  /** Whether to open each table even if the snapshot was published, in case another program changed it. */
  readonly isThorough?: boolean
  /** Called before the first table gets a snapshot: from then on, its local files must stay until it is published. */
  readonly onBegin: (snapshot: string) => Promise<void>
}

const UPLOADS_AT_ONCE = 8
/** Each commit writes a few small objects, one after another. */
const COMMITS_AT_ONCE = 32

/**
 * Publishes a snapshot of the local lake to the object store: uploads missing files, commits each table, then
 * replaces `latest.json`. The next publish finishes an interrupted one, without repeating what is done.
 * @throws RemoteError if the store refuses, or another program wrote there.
 */
export async function publishRemote(
  store: ObjectStore,
  db: Database,
  request: RemoteRequest,
): Promise<PublishedElsewhere> {
  const { formats, lake, manifest, now, isThorough = false, isNewLog = false, local } = request
  const { snapshot, company } = manifest
  let published = await readRemoteLatest(store, company)
  const refusal =
    isNewLog || (await isBegun(published?.latest ?? null, lake, manifest))
      ? null
      : explainPublishRefusal(published?.latest ?? null, manifest)
  if (refusal !== null) throw new RemoteError(`${refusal} Nothing was published. ${composeRemedy(company)}.`)
  const uploads = { uploaded: 0, bytesUploaded: 0 }
  const { pending = null, snapshot: before = null } = published?.latest ?? {}
  const isInAll = [...formats.keys()].every(format => published?.latest[format])
  const isThere = published !== null && hasContent(published.latest, manifest)
  if (isThere && pending === null && isInAll && !isThorough) return { snapshot, written: false, ...uploads }
  const context = { ...request, store, db, uploads }
  if (pending !== null && pending.snapshot !== snapshot) {
    const unfinished = await readManifest(join(snapshotsDirectory(lake), pending.snapshot))
    // Without its files, for example on another machine, some tables stay one snapshot ahead until the next publish.
    if (unfinished) published = await bring(context, published, await local(unfinished), new Date(pending.at))
  }
  const at = timeAfter(published?.latest ?? null, snapshot, now)
  const done = await bring(context, published, await local(manifest), at)
  const written = before !== snapshot || hasChanged([...formats.keys()], published?.latest, done.latest)
  return { snapshot, written, ...uploads }
}

/** Returns whether a publish of this log was allowed before, and did not end. */
async function isBegun(latest: Latest | null, lake: string, { log }: Manifest): Promise<boolean> {
  if (!latest?.pending) return false
  const begun = await readManifest(join(snapshotsDirectory(lake), latest.pending.snapshot))
  return begun !== null && begun.log === log
}

/** Returns whether a table got a new version, which it does only if it lacked something. */
function hasChanged(formats: readonly TableKeeper[], before: Latest | undefined, after: Latest): boolean {
  const versions = (latest: Latest | undefined) =>
    formats.flatMap(format => Object.entries(latest?.[format] ?? {}).map(pair => `${format} ${pair}`)).sort()
  return !isDeepStrictEqual(versions(before), versions(after))
}

type Context = Omit<RemoteRequest, 'manifest' | 'now' | 'local'> & {
  readonly store: ObjectStore
  readonly db: Database
  readonly uploads: { uploaded: number; bytesUploaded: number }
}

/** A table, the files that it should have, and its current state in each format. */
type Part = {
  readonly table: RemoteTable
  readonly files: readonly File[]
  readonly opened: ReadonlyMap<TableKeeper, OpenTable>
}

async function bring(
  context: Context,
  before: Versioned | null,
  local: Local,
  wanted: Date,
): Promise<Versioned> {
  const { store, formats } = context
  const { manifest } = local
  const { company, snapshot, data_version, log = null } = manifest
  const latest = before?.latest ?? nothingPublished(company)
  const parts = await openAll(context, local, latest)
  // A catalog refuses a snapshot that is older than the table's last change, and its clock may be ahead of ours.
  const changes = [...formats.values()].map(format => format.lastChange())
  const at = new Date(Math.max(wanted.getTime(), ...changes))
  await uploadFiles(context, manifest.company, parts)
  await context.onBegin(snapshot)
  const begun: Latest = { ...latest, pending: { snapshot, at: at.toISOString() } }
  const begunTag = await replaceLatest(store, begun, before?.tag ?? null)
  const versions = new Map([...formats.keys()].map(format => [format, {} as Record<string, number>]))
  const waiting = parts.flatMap(part => [...formats.keys()].map(format => ({ part, format })))
  await runConcurrently(COMMITS_AT_ONCE, async stopped => {
    for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift()) {
      const { part, format } = next
      const version = await commitPart(context, manifest, part, { format, at })
      Object.assign(versions.get(format) ?? {}, { [part.table.name]: version })
    }
  })
  for (const format of formats.values()) await format.finish()
  // A format that is no longer published is left out: it would show an old state.
  const done: Latest = {
    ...{ format: 1, company, snapshot, data_version, log, published_at: at.toISOString(), pending: null },
    applied_segment: manifest.applied_segment,
    content: hashTables(manifest),
    ...Object.fromEntries(versions),
  }
  return { latest: done, tag: await replaceLatest(store, done, begunTag) }
}

async function openAll({ formats }: Context, local: Local, latest: Latest): Promise<Part[]> {
  const parts = REMOTE_TABLES.map(table => ({ table, files: listFiles(table, local) }))
  return await Promise.all(
    parts.map(async ({ table, files }) => {
      const { name } = table
      const opened = [...formats].map(async ([format, tables]) => {
        const known = latest[format]?.[name] ?? null
        return [format, await tables.open(name, known, table)] as const
      })
      return { table, files, opened: new Map(await Promise.all(opened)) }
    }),
  )
}

async function commitPart(
  context: Context,
  manifest: Manifest,
  { table, files, opened }: Part,
  { format, at }: { readonly format: TableKeeper; readonly at: Date },
): Promise<number> {
  const { db, temporary } = context
  const places = new Map(files.map(file => [file.path, file.place]))
  const known = new Map<string, Promise<ColumnStatistics[]>>()
  return await (opened.get(format) as OpenTable).commit({
    table,
    files,
    snapshot: manifest.snapshot,
    at,
    async readStatistics({ path }) {
      const own = known.get(path) ?? readStatistics(db, places.get(path) ?? '', table.columns)
      known.set(path, own)
      return await own
    },
    makeParquet: async (columns, rows) => await parquetBytes(db, temporary, columns, rows),
  })
}

/** Uploads the files that the tables lack, a few at a time. */
async function uploadFiles(context: Context, company: string, parts: readonly Part[]): Promise<void> {
  const { store, uploads } = context
  const waiting = parts.flatMap(({ table, files, opened }) => {
    const isThere = ({ path }: File) => [...opened.values()].some(one => one.files.has(path))
    const missing = files.filter(file => !isThere(file))
    return missing.map(file => ({ ...file, key: `${tableKey(company, table.name)}/${file.path}` }))
  })
  await runConcurrently(UPLOADS_AT_ONCE, async stopped => {
    for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift()) {
      const { key, place: path, bytes, sha256 } = next
      // A publish that died may have uploaded it.
      if (!(await store.upload(key, { path, bytes, sha256 }))) continue
      uploads.uploaded += 1
      uploads.bytesUploaded += bytes
    }
  })
}

type File = RemoteFile & {
  /** The path of the local file. */
  readonly place: string
  readonly sha256: string
}

/** Returns the files of a table, named by their content and never replaced. */
function listFiles(table: RemoteTable, { manifest, directory, marts }: Local): File[] {
  const isBelow = (path: string) => path.startsWith(`${table.name}/`) || path === martPath(table.name)
  return listPublishedFiles(manifest)
    .filter(({ path }) => isBelow(path))
    .map(({ path, month, rows, bytes, sha256 }) => ({
      place: join(path === martPath(table.name) ? marts : directory, path),
      path: `data/${month ?? 'all'}-${sha256}.parquet`,
      rows,
      bytes,
      sha256,
    }))
}

/** Returns a time later than that of the previous snapshot, even if the clock went back. */
function timeAfter(before: Latest | null, snapshot: string, now: Date): Date {
  const { pending, published_at } = before ?? {}
  if (pending?.snapshot === snapshot) return new Date(pending.at)
  const last = Math.max(Date.parse(published_at ?? '') || 0, Date.parse(pending?.at ?? '') || 0)
  return new Date(Math.max(now.getTime(), last + 1))
}
