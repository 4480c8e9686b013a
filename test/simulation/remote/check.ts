import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { listPublishedFiles, type Manifest, type MartFiles } from '#src/core/lake/manifest.ts'
import { decodeManifest, decodeManifestList, STATUS } from '#src/extras/object_store/iceberg/manifests.ts'
import type { Latest } from '#src/extras/object_store/tables/format.ts'
import { assertHolds } from '#test/simulation/assertions.ts'
import type { CatalogServer } from '#tools/iceberg_catalog.ts'
import { BUCKET, type S3Server } from '#tools/s3_server.ts'
import { LAKE, type SimulatedStore } from './store.ts'

/**
 * I13: the object store shows whole snapshots only. What `latest.json` names has, in every table and format, exactly
 * the files of the local snapshot; and what a kept snapshot names is there.
 */

/** What the local lake published, by snapshot and table: remembered, because the lake forgets it. */
export type LocalSnapshots = Map<string, ReadonlyMap<string, Files>>

const LATEST = `${LAKE}/latest.json`

export function latestOf({ s3 }: SimulatedStore): Latest | null {
  return s3.objects.has(LATEST) ? (JSON.parse(bytesAt(s3, LATEST).toString()) as Latest) : null
}

/** Remembers the latest snapshots while they are there. */
export function rememberLocal({ lake, remoteMarts }: CompanyPaths, known: LocalSnapshots): void {
  const directory = join(lake, 'snapshots')
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    const manifest = read<Manifest>(join(directory, name, 'manifest.json'))
    if (!manifest) continue
    const marts = manifest.marts?.files.length
      ? null
      : read<MartFiles>(join(remoteMarts, name, 'manifest.json'))
    // Without its marts, it is not published yet, or already known.
    const isWhole = marts !== null || (manifest.marts?.files.length ?? 0) > 0
    if (isWhole || !known.has(name)) known.set(name, filesOf(marts ? { ...manifest, marts } : manifest))
  }
}

function read<T>(path: string): T | null {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as T) : null
}

function filesOf(manifest: Manifest): ReadonlyMap<string, Files> {
  const tables = new Map<string, Map<string, number>>()
  for (const { path, month, rows, sha256 } of listPublishedFiles(manifest)) {
    const [, table = ''] = /^(?:marts\/(.*)\.parquet|[^/]+)/.exec(path) ?? []
    const name = table || (path.split('/')[0] as string)
    const files = tables.get(name) ?? new Map<string, number>()
    files.set(`${LAKE}/${name}/data/${month ?? 'all'}-${sha256}.parquet`, rows)
    tables.set(name, files)
  }
  return tables
}

/** Objects whose content is known to have the hash in their name, by tag. */
const checked = new Set<string>()

/** What a reader that begins with `latest.json` finds. */
export async function checkReadable(store: SimulatedStore, local: LocalSnapshots): Promise<void> {
  const latest = latestOf(store)
  if (latest?.snapshot == null) return
  const { snapshot } = latest
  const expected = local.get(snapshot)
  assertHolds(expected !== undefined, () => `I13: latest.json names ${snapshot}, which never existed`)
  for (const [table, files] of expected ?? []) {
    const { iceberg, catalog, delta } = latest
    for (const versions of [iceberg, catalog, delta])
      assertHolds(versions?.[table] !== undefined || !versions, () => `I13: latest.json has no ${table}`)
    if (iceberg)
      await checkIceberg(store, latest, files, fileTable(store.s3, table, iceberg[table] as number), table)
    if (catalog && store.catalog)
      await checkIceberg(store, latest, files, catalogTable(store.catalog, table), table)
    if (delta) checkDelta(store, latest, files, table)
  }
}

async function checkIceberg(
  store: SimulatedStore,
  { snapshot, published_at, pending, catalog }: Latest,
  files: Files,
  { current, snapshots }: IcebergTable,
  table: string,
): Promise<void> {
  const one = snapshots.get(snapshot as string)
  assertHolds(one !== undefined, () => `I13: ${table} has no tag for ${snapshot}`)
  if (!one) return
  // Earlier if the table did not change.
  assertHolds(
    one.at <= Date.parse(published_at ?? ''),
    () => `I13: ${table} has a later time for ${snapshot}`,
  )
  // A catalog shows its newest state; a file of metadata is the one that latest.json names.
  if (!catalog || pending === null)
    assertHolds(one.id === current, () => `I13: the current state of ${table} is not ${snapshot}`)
  checkFiles(store, files, await filesOfList(store.s3, one.list), `${table} of ${snapshot} (Iceberg)`)
}

function checkDelta(store: SimulatedStore, { delta, snapshot }: Latest, files: Files, table: string): void {
  const present = filesOfDelta(store.s3, table, delta?.[table] as number)
  if (present) checkFiles(store, files, present, `${table} of ${snapshot} (Delta)`)
}

function checkFiles({ s3 }: SimulatedStore, expected: Files, present: Files, what: string): void {
  const text = (files: Files) => JSON.stringify([...files].sort())
  assertHolds(
    text(expected) === text(present),
    () => `I13: ${what} has ${text(present)} instead of ${text(expected)}`,
  )
  for (const key of present.keys()) {
    const bytes = bytesAt(s3, key)
    const id = `${key} ${s3.objects.get(key)?.tag}`
    if (checked.has(id)) continue
    const hash = createHash('sha256').update(bytes).digest('hex')
    assertHolds(key.includes(hash), () => `I13: the content of ${key} does not match its hash`)
    checked.add(id)
  }
}

/** Every kept snapshot of every Iceberg table: time travel. */
export async function checkKept(store: SimulatedStore, local: LocalSnapshots): Promise<void> {
  const latest = latestOf(store)
  const tables = Object.entries(latest?.iceberg ?? {}).map(
    ([table, version]) => [table, fileTable(store.s3, table, version)] as const,
  )
  const { catalog } = store
  if (catalog)
    for (const table of Object.keys(latest?.catalog ?? {})) tables.push([table, catalogTable(catalog, table)])
  for (const [table, { snapshots }] of tables)
    for (const [name, { list }] of snapshots) {
      const files = local.get(name)?.get(table)
      if (files) checkFiles(store, files, await filesOfList(store.s3, list), `${table} of ${name} (kept)`)
    }
}

/** After a vacuum that keeps nothing old: each data file is named by a snapshot. */
export async function checkVacuumed(store: SimulatedStore): Promise<void> {
  const { s3, catalog } = store
  const latest = latestOf(store)
  const named = new Set<string>()
  const isComplete = latest?.delta === undefined
  for (const [table, version] of Object.entries(latest?.iceberg ?? {}))
    for (const { list } of fileTable(s3, table, version).snapshots.values())
      for (const key of (await filesOfList(s3, list)).keys()) named.add(key)
  for (const table of catalog ? Object.keys(latest?.catalog ?? {}) : [])
    if (catalog)
      for (const { list } of catalogTable(catalog, table).snapshots.values())
        for (const key of (await filesOfList(s3, list)).keys()) named.add(key)
  if (!isComplete) return
  for (const key of s3.objects.keys())
    assertHolds(!/\/data\//.test(key) || named.has(key), () => `I13: vacuum left ${key}, which nothing names`)
}

/** Tables of a simulated store as a reader finds them: from their metadata and files alone. */

/** Rows by the key of the data file. */
type Files = ReadonlyMap<string, number>
/** What an Iceberg table has: each tagged snapshot of the lake, with its time in milliseconds. */
type IcebergTable = {
  readonly current: number
  readonly snapshots: ReadonlyMap<string, Snapshot>
}
type Snapshot = { readonly id: number; readonly at: number; readonly list: string }
type Json = {
  readonly 'current-snapshot-id'?: number
  readonly snapshots?: readonly {
    readonly 'snapshot-id': number
    readonly 'timestamp-ms': number
    readonly 'manifest-list': string
  }[]
  readonly refs?: Readonly<Record<string, { readonly 'snapshot-id': number }>>
}

const TAG = 's-'

function bytesAt({ objects }: S3Server, key: string): Buffer {
  const stored = objects.get(key)
  assertHolds(stored !== undefined, () => `I13: ${key} is not in the object store`)
  return stored?.bytes as Buffer
}

/** At this version of its metadata. */
function fileTable(s3: S3Server, table: string, version: number): IcebergTable {
  const path = `${LAKE}/${table}/metadata/v${version}.metadata.json`
  return tableOf(JSON.parse(bytesAt(s3, path).toString()) as Json)
}

function catalogTable({ tables }: CatalogServer, table: string): IcebergTable {
  const found = tables.get(`editais_acme.${table}`)
  assertHolds(found !== undefined, () => `I13: the catalog has no ${table}`)
  const current = found?.refs.main?.['snapshot-id']
  return tableOf({ ...(found as unknown as Json), 'current-snapshot-id': current ?? -1 })
}

function tableOf({ refs = {}, snapshots = [], 'current-snapshot-id': current = -1 }: Json): IcebergTable {
  const known = new Map(snapshots.map(one => [one['snapshot-id'], one]))
  const tagged = Object.entries(refs).flatMap(([name, { 'snapshot-id': id }]) => {
    const one = known.get(id)
    assertHolds(one !== undefined, () => `I13: ${name} names a snapshot that is gone`)
    if (!one || !name.startsWith(TAG)) return []
    return [[name.slice(TAG.length), { id, at: one['timestamp-ms'], list: one['manifest-list'] }] as const]
  })
  return { current, snapshots: new Map(tagged) }
}

const keyOf = (uri: string) => uri.slice(`s3://${BUCKET}/`.length)

/** By a snapshot's manifests. */
async function filesOfList(s3: S3Server, list: string): Promise<Files> {
  const manifests = await decodeManifestList(bytesAt(s3, keyOf(list)))
  const files = new Map<string, number>()
  for (const { manifest_path } of manifests)
    for (const { status, data_file } of await decodeManifest(bytesAt(s3, keyOf(manifest_path))))
      if (status !== STATUS.deleted) files.set(keyOf(data_file.file_path), data_file.record_count)
  return files
}

type Action = {
  readonly add?: { readonly path: string; readonly stats: string }
  readonly remove?: { readonly path: string }
}

const logPath = (table: string, version: number) =>
  `${LAKE}/${table}/_delta_log/${String(version).padStart(20, '0')}.json`

function actionsOf(s3: S3Server, table: string, version: number): Action[] {
  const lines = bytesAt(s3, logPath(table, version)).toString().trim().split('\n')
  return lines.map(line => JSON.parse(line) as Action)
}

/** By all commits up to this version; null if the first ones were vacuumed, and a checkpoint replaces them. */
function filesOfDelta(s3: S3Server, table: string, version: number): Files | null {
  if (!s3.objects.has(logPath(table, 0))) return null
  const files = new Map<string, number>()
  for (let each = 0; each <= version; each += 1)
    for (const { add, remove } of actionsOf(s3, table, each)) {
      if (remove) files.delete(`${LAKE}/${table}/${remove.path}`)
      const { numRecords } = JSON.parse(add?.stats ?? '{}') as { numRecords: number }
      if (add) files.set(`${LAKE}/${table}/${add.path}`, numRecords)
    }
  return files
}
