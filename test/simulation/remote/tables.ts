import { decodeManifest, decodeManifestList, STATUS } from '#src/extras/object_store/iceberg/manifests.ts'
import type { CatalogServer } from '#tools/iceberg_catalog.ts'
import { BUCKET, type S3Server } from '#tools/s3_server.ts'
import { assertHolds } from '../assertions.ts'
import { LAKE } from './store.ts'

/** Tables of a simulated store as a reader finds them: from their metadata and files alone. */

/** Rows by the key of the data file. */
export type Files = ReadonlyMap<string, number>
/** What an Iceberg table has: each tagged snapshot of the lake, with its time in milliseconds. */
export type IcebergTable = {
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

export function bytesAt({ objects }: S3Server, key: string): Buffer {
  const stored = objects.get(key)
  assertHolds(stored !== undefined, () => `I13: ${key} is not in the object store`)
  return stored?.bytes as Buffer
}

/** At this version of its metadata. */
export function fileTable(s3: S3Server, table: string, version: number): IcebergTable {
  const path = `${LAKE}/${table}/metadata/v${version}.metadata.json`
  return tableOf(JSON.parse(bytesAt(s3, path).toString()) as Json)
}

export function catalogTable({ tables }: CatalogServer, table: string): IcebergTable {
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
export async function filesOfList(s3: S3Server, list: string): Promise<Files> {
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
export function filesOfDelta(s3: S3Server, table: string, version: number): Files | null {
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
