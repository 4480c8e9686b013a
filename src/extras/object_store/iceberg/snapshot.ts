import { createHash } from 'node:crypto'
import { makePrintable } from '#schema/text_key.ts'
import {
  type Bound,
  boundText,
  type ColumnStatistics,
  type Commit,
  DATA_PATH,
  type RemoteFile,
  type RemoteTable,
  type RemoteType,
} from '#src/extras/object_store/tables/format.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { getMessage } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { ForeignObject, type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'
import {
  type DataFile,
  decodeManifest,
  decodeManifestList,
  encodeManifest,
  encodeManifestList,
  type IcebergSchema,
  type ListedManifest,
  type ManifestEntry,
  STATUS,
} from './manifests.ts'
import {
  findCurrentSchema,
  findCurrentSnapshot,
  makePresent,
  SNAPSHOT_PROPERTY,
  type Snapshot,
  snapshotTag,
  type TableMetadata,
  withSchema,
  withTag,
} from './metadata.ts'

/** How many characters of a text a bound has, as with Iceberg's own writers. */
const TEXT_CHARACTERS = 16

/**
 * Returns a bound in Iceberg's binary form ("Binary single-value serialization" of its specification); null if the text has
 * no upper bound of that length.
 */
export function boundBytes(bound: Bound, type: RemoteType, side: 'lower' | 'upper'): Buffer | null {
  switch (type) {
    case 'VARCHAR':
      return textBytes(boundText(String(bound), side === 'lower' ? 'min' : 'max', TEXT_CHARACTERS))
    case 'BOOLEAN':
      return Buffer.from([bound === true ? 1 : 0])
    case 'INTEGER':
    case 'DATE':
      return bytes(4, buffer => buffer.writeInt32LE(Number(bound)))
    case 'DOUBLE':
      return bytes(8, buffer => buffer.writeDoubleLE(Number(bound)))
    case 'BIGINT':
    case 'TIMESTAMP':
    case 'TIMESTAMPTZ':
      return bytes(8, buffer => buffer.writeBigInt64LE(BigInt(bound)))
  }
}

function bytes(length: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(length)
  write(buffer)
  return buffer
}

function textBytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text)
}

/** Snapshots of an Iceberg table, with or without a catalog: their manifests and lists, and the next metadata. */

const READS_AT_ONCE = 16

/** A table as it is in the object store. */
export type IcebergTable = {
  /** The directory of our objects; files and manifests name them by their full addresses. */
  readonly directory: string
  readonly metadata: TableMetadata
  /** The files of the current snapshot. */
  readonly entries: readonly ManifestEntry[]
}

export async function readTable(
  store: ObjectStore,
  directory: string,
  metadata: TableMetadata,
): Promise<IcebergTable> {
  return { directory, metadata, entries: await readEntries(store, directory, metadata) }
}

/** Throws RemoteError if another program committed to the table. */
export function assertOurs(name: string, { snapshots }: TableMetadata): void {
  const foreign = snapshots.find(({ summary }) => summary[SNAPSHOT_PROPERTY] === undefined)
  if (foreign)
    throw new RemoteError(
      `Another program committed snapshot ${foreign['snapshot-id']} to ${name}. Stop that program, and roll the table back.`,
    )
}

/** Returns the files of the current snapshot, with paths relative to the table. */
export function listTableFiles(store: ObjectStore, { directory, entries }: IcebergTable): RemoteFile[] {
  const prefix = `${store.root}/${directory}/`
  return entries.map(({ data_file: { file_path, record_count, file_size_in_bytes } }) => ({
    path: file_path.slice(prefix.length),
    rows: record_count,
    bytes: file_size_in_bytes,
  }))
}

/**
 * Returns the metadata with the wanted snapshot; its manifest and list are written before this returns.
 * @returns the same object if the table has this snapshot already.
 */
export async function writeNextMetadata(
  store: ObjectStore,
  base: IcebergTable,
  wanted: Commit,
): Promise<TableMetadata> {
  const { directory, metadata: before, entries } = base
  const { snapshot, at } = wanted
  const tagged = before.refs[snapshotTag(snapshot)]
  if (tagged && tagged['snapshot-id'] === before['current-snapshot-id']) return before
  const described = withSchema(before, wanted.table)
  const schema = findCurrentSchema(described) as IcebergSchema
  const isSameSchema = schema['schema-id'] === before['current-schema-id']
  const changed = await planChanges(store, directory, entries, { wanted, schema, before })
  const { added, deleted } = changed
  if (isSameSchema && added.length + deleted.length === 0 && before['current-snapshot-id'] !== -1)
    return withTag(described, snapshot, at)
  return withTag(await addSnapshot(store, directory, described, changed, { wanted, schema }), snapshot, at)
}

type Changes = {
  readonly kept: readonly ManifestEntry[]
  readonly added: readonly ManifestEntry[]
  readonly deleted: readonly ManifestEntry[]
}

async function planChanges(
  store: ObjectStore,
  directory: string,
  entries: readonly ManifestEntry[],
  about: { wanted: Commit; schema: IcebergSchema; before: TableMetadata },
): Promise<Changes> {
  const { wanted, schema, before } = about
  const id = snapshotId(before['table-uuid'], wanted.snapshot)
  const sequence = before['last-sequence-number'] + 1
  const known = new Map(entries.map(entry => [entry.data_file.file_path, entry]))
  const makeUri = ({ path }: RemoteFile) => `${store.root}/${directory}/${path}`
  const kept: ManifestEntry[] = []
  const added: ManifestEntry[] = []
  for (const file of wanted.files) {
    const entry = known.get(makeUri(file))
    known.delete(makeUri(file))
    if (entry) kept.push({ ...entry, status: STATUS.existing })
    else {
      const data_file = dataFile(makeUri(file), file, await wanted.readStatistics(file), {
        ...wanted,
        schema,
      })
      added.push({
        status: STATUS.added,
        snapshot_id: id,
        sequence_number: sequence,
        file_sequence_number: sequence,
        data_file,
      })
    }
  }
  const deleted = [...known.values()].map(entry => ({ ...entry, status: STATUS.deleted, snapshot_id: id }))
  return { kept, added, deleted }
}

function dataFile(
  uri: string,
  { rows, bytes }: RemoteFile,
  statistics: readonly ColumnStatistics[],
  { table, schema }: { table: RemoteTable; schema: IcebergSchema },
): DataFile {
  const columns = statistics.map((known, index) => {
    const type = table.columns[index]?.type ?? 'VARCHAR'
    const encodeBound = (side: 'lower' | 'upper', bound: ColumnStatistics['min']) =>
      bound === null ? null : boundBytes(bound, type, side)
    return {
      ...known,
      id: schema.fields[index]?.id as number,
      lower: encodeBound('lower', known.min),
      upper: encodeBound('upper', known.max),
    }
  })
  const pairs = <T>(of: (column: (typeof columns)[number]) => T | null) =>
    columns.flatMap(column => {
      const value = of(column)
      return value === null ? [] : [{ key: column.id, value }]
    })
  return {
    file_path: uri,
    record_count: rows,
    file_size_in_bytes: bytes,
    column_sizes: pairs(column => column.bytes),
    value_counts: pairs(column => column.values),
    null_value_counts: pairs(column => column.nulls),
    lower_bounds: pairs(column => column.lower),
    upper_bounds: pairs(column => column.upper),
  }
}

/** Writes the manifest and its list, and adds the snapshot that they make. */
async function addSnapshot(
  store: ObjectStore,
  directory: string,
  before: TableMetadata,
  { kept, added, deleted }: Changes,
  { wanted, schema }: { wanted: Commit; schema: IcebergSchema },
): Promise<TableMetadata> {
  const id = snapshotId(before['table-uuid'], wanted.snapshot)
  const parent = findCurrentSnapshot(before)
  const sequence = before['last-sequence-number'] + 1
  const entries = [...kept, ...added, ...deleted]
  const manifest = await encodeManifest(entries, schema)
  const manifestKey = `${directory}/metadata/${hashContent(manifest).slice(0, 32)}.avro`
  await store.put(manifestKey, manifest)
  const sumRows = (some: readonly ManifestEntry[]) =>
    some.reduce((sum, { data_file }) => sum + data_file.record_count, 0)
  const encodeBound = (some: readonly ManifestEntry[]) =>
    some.reduce((sum, { data_file }) => sum + data_file.file_size_in_bytes, 0)
  const list = await encodeManifestList(
    [
      {
        manifest_path: `${store.root}/${manifestKey}`,
        manifest_length: manifest.length,
        sequence_number: sequence,
        min_sequence_number: Math.min(sequence, ...[...kept, ...added].map(entry => entry.sequence_number)),
        added_snapshot_id: id,
        added_files_count: added.length,
        existing_files_count: kept.length,
        deleted_files_count: deleted.length,
        added_rows_count: sumRows(added),
        existing_rows_count: sumRows(kept),
        deleted_rows_count: sumRows(deleted),
      },
    ],
    { id, parent: parent?.['snapshot-id'] ?? null, sequence },
  )
  const listKey = `${directory}/metadata/snap-${id}-${hashContent(list).slice(0, 32)}.avro`
  await store.put(listKey, list)
  return makePresent(before, {
    'snapshot-id': id,
    ...(parent ? { 'parent-snapshot-id': parent['snapshot-id'] } : {}),
    'sequence-number': sequence,
    'timestamp-ms': wanted.at.getTime(),
    'manifest-list': `${store.root}/${listKey}`,
    'schema-id': schema['schema-id'],
    summary: {
      operation: parent ? 'overwrite' : 'append',
      'added-data-files': String(added.length),
      'deleted-data-files': String(deleted.length),
      'added-records': String(sumRows(added)),
      'deleted-records': String(sumRows(deleted)),
      'total-data-files': String(kept.length + added.length),
      'total-records': String(sumRows([...kept, ...added])),
      'total-files-size': String(encodeBound([...kept, ...added])),
      [SNAPSHOT_PROPERTY]: wanted.snapshot,
    },
  })
}

/** Returns the files of the current snapshot. */
async function readEntries(
  store: ObjectStore,
  directory: string,
  metadata: TableMetadata,
): Promise<ManifestEntry[]> {
  const snapshot = findCurrentSnapshot(metadata)
  if (snapshot === null) return []
  const { entries } = await readSnapshot(store, directory, snapshot)
  return entries.filter(({ status }) => status !== STATUS.deleted)
}

/** Keys of everything that snapshots of a table name: lists, manifests and files. */
export async function listNamedObjects(
  store: ObjectStore,
  directory: string,
  snapshots: readonly Snapshot[],
): Promise<ReadonlySet<string>> {
  const named = new Set<string>()
  const waiting = [...snapshots]
  const makeKey = (uri: string) => uri.slice(store.root.length + 1)
  await runConcurrently(READS_AT_ONCE, async stopped => {
    for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift()) {
      const { manifest, entries } = await readSnapshot(store, directory, next)
      for (const address of [next['manifest-list'], manifest]) named.add(makeKey(address))
      for (const { status, data_file } of entries)
        if (status !== STATUS.deleted) named.add(makeKey(data_file.file_path))
    }
  })
  return named
}

const LIST: AvroKind<ListedManifest> = {
  path: /^metadata\/snap-\d{1,16}-[0-9a-f]{32}\.avro$/,
  mostBytes: 1024 * 1024,
  decode: decodeManifestList,
}
const MANIFEST: AvroKind<ManifestEntry> = {
  path: /^metadata\/[0-9a-f]{32}\.avro$/,
  mostBytes: 16 * 1024 * 1024,
  decode: decodeManifest,
}

type AvroKind<T> = {
  /** Below the table. */
  readonly path: RegExp
  readonly mostBytes: number
  readonly decode: (bytes: Buffer) => readonly T[]
}

/** Reads a snapshot. @throws ForeignObject if it names what is no part of this table, or a part is not what we wrote. */
async function readSnapshot(store: ObjectStore, directory: string, snapshot: Snapshot) {
  const read = async <T>(uri: string, { path, mostBytes, decode }: AvroKind<T>) => {
    const found = await store.get(resolveKey(store, directory, uri, path), mostBytes)
    if (found === null) throw new RemoteError(`${uri} is missing: another program removed it.`)
    try {
      return decode(found.bytes)
    } catch (error) {
      throw new ForeignObject(uri, `is no part of this table (${getMessage(error)})`)
    }
  }
  const [list, ...others] = await read(snapshot['manifest-list'], LIST)
  if (list === undefined || others.length > 0)
    throw new ForeignObject(snapshot['manifest-list'], 'does not name one manifest')
  const { manifest_path: manifest } = list
  const entries = await read(manifest, MANIFEST)
  for (const { data_file } of entries) {
    resolveKey(store, directory, data_file.file_path, DATA_PATH)
    if (data_file.record_count < 0 || data_file.file_size_in_bytes < 0)
      throw new ForeignObject(manifest, 'has a file of less than nothing')
  }
  return { manifest, entries }
}

/**
 * Returns the key of an object whose address is in the metadata of a table.
 * @param path what it must be, below the table.
 * @throws ForeignObject if it is anywhere else.
 */
export function resolveKey(store: ObjectStore, directory: string, uri: string, path: RegExp): string {
  const table = `${store.root}/${directory}`
  if (uri.startsWith(`${table}/`) && path.test(uri.slice(table.length + 1)))
    return uri.slice(store.root.length + 1)
  throw new ForeignObject(table, `names ${makePrintable(uri.slice(0, 300))}, which is no part of it`)
}

/** Derives a snapshot's id: always the same, and below 2^53, so that JavaScript's JSON and Avro libraries can read it. */
function snapshotId(uuid: string, snapshot: string): number {
  const digest = createHash('sha256').update(`${uuid} ${snapshot}`).digest()
  return digest.readUIntBE(0, 6) * 16 + 1
}
