import {
  type Commit,
  type Expired,
  type Expiry,
  type OpenTable,
  type TableFormat,
  tableKey,
} from '#src/extras/object_store/tables/format.ts'
import { deriveUuid } from '#src/lib/hash.ts'
import { create, type ObjectStore, RemoteError, readJson } from '#src/lib/objects/objects.ts'
import { createTableMetadata, dropTags, findExpired, METADATA, type TableMetadata } from './metadata.ts'
import {
  assertOurs,
  type IcebergTable,
  listNamedObjects,
  listTableFiles,
  readTable,
  resolveKey,
  writeNextMetadata,
} from './snapshot.ts'

/**
 * Creates the format of Iceberg v2 tables without a catalog: `metadata/v<N>.metadata.json` is created only if it does not exist,
 * so that only one writer can win. There is no `version-hint.text`: it would cost a write for each table, and readers that follow
 * it would see tables of different snapshots. `latest.json` names the version of each.
 */
export function createIcebergTables(store: ObjectStore, company: string): TableFormat {
  return {
    open: (name, known) => open(store, tableKey(company, name), known),
    lastChange: () => 0,
    finish: async () => {},
    close() {},
  }
}

/** A table and its version, which is 0 before the first commit. */
type FileTable = IcebergTable & { readonly version: number }

async function open(store: ObjectStore, directory: string, known: number | null): Promise<OpenTable> {
  const table = await openTable(store, directory, known)
  const files = listTableFiles(store, table)
  return {
    version: table.version === 0 ? null : table.version,
    files: new Set(files.map(({ path }) => path)),
    commit: wanted => commit(store, table, wanted),
    read: async () => files,
    expire: older => expire(store, table, older),
  }
}

/**
 * Opens a table.
 * @param known the version that the last complete publish left, null if that is not known; a newer one may be there.
 * @throws RemoteError if another program committed to it, or removed parts of it.
 */
async function openTable(store: ObjectStore, directory: string, known: number | null): Promise<FileTable> {
  const location = `${store.root}/${directory}`
  const latest = await latestVersion(store, directory, known ?? (await newestVersion(store, directory)))
  const { version, metadata } = latest ?? {
    version: 0,
    metadata: createTableMetadata(deriveUuid(location), location),
  }
  return { version, ...(await readTable(store, directory, metadata)) }
}

/** Commits a snapshot to a table. @returns the number of the version that has it. */
async function commit(store: ObjectStore, base: FileTable, wanted: Commit): Promise<number> {
  return await commitMetadata(store, base, await writeNextMetadata(store, base, wanted))
}

/**
 * Replaces a table's metadata.
 * @param next the base's own if nothing changed: then nothing is written.
 * @returns the number of its version.
 * @throws RemoteError if another program was faster.
 */
async function commitMetadata(store: ObjectStore, base: FileTable, next: TableMetadata): Promise<number> {
  const { directory, version, metadata } = base
  if (next === metadata) return version
  const path = metadataPath(directory, version + 1)
  const logged =
    version === 0 ? next : withLog(next, `${store.root}/${metadataPath(directory, version)}`, metadata)
  if (!(await create(store, path, Buffer.from(JSON.stringify(logged)))))
    throw new RemoteError(
      `${store.root}/${path} was written by another program meanwhile. The next run publishes.`,
    )
  return version + 1
}

/** Returns the newest that is there; needed only if no `latest.json` knows it. */
async function newestVersion(store: ObjectStore, directory: string): Promise<number | null> {
  let newest = 0
  for await (const { key } of store.list(`${directory}/metadata/v`))
    newest = Math.max(newest, Number(/\/v(\d+)\.metadata\.json$/.exec(key)?.[1] ?? 0))
  return newest === 0 ? null : newest
}

type Version = Pick<FileTable, 'version' | 'metadata'>

/**
 * Returns the newest version, which may be newer than the one that the last complete publish knew.
 * @throws RemoteError if another program committed it.
 */
async function latestVersion(
  store: ObjectStore,
  directory: string,
  known: number | null,
): Promise<Version | null> {
  let latest: Version | null = null
  for (let number = known ?? 1; ; number += 1) {
    const read = await readJson(store, metadataPath(directory, number), METADATA)
    if (read === null) break
    latest = { version: number, metadata: read.value }
  }
  if (latest === null && known !== null)
    throw new RemoteError(
      `${store.root}/${metadataPath(directory, known)} is missing: another program removed it.`,
    )
  if (latest) assertOurs(`${store.root}/${directory}`, latest.metadata)
  return latest
}

async function expire(store: ObjectStore, table: FileTable, older: Expiry): Promise<Expired> {
  const { snapshots, expired } = findExpired(table.metadata, older)
  const metadata = dropTags(table.metadata, expired, older.now)
  const version = await commitMetadata(store, table, metadata)
  const forgotten = table.metadata.snapshots.filter(one => !metadata.snapshots.includes(one))
  const own = metadataPath(table.directory, version)
  const named = new Set([own, ...(await listNamedObjects(store, table.directory, metadata.snapshots))])
  return {
    version,
    removed: expired.size,
    kept: snapshots.length - expired.size,
    isNamed: key => named.has(key),
    superseded: new Set([
      ...oldMetadata(store, table, older),
      ...(await listNamedObjects(store, table.directory, forgotten)),
    ]),
  }
}

/** Versions of the metadata: `latest.json` named each of them once. */
function oldMetadata(
  store: ObjectStore,
  { directory, metadata }: IcebergTable,
  { keepMs, now }: Expiry,
): string[] {
  const log = metadata['metadata-log']
  const supersededAt = (index: number) => log[index + 1]?.['timestamp-ms'] ?? metadata['last-updated-ms']
  const old = log.filter((_, index) => now.getTime() - supersededAt(index) > keepMs)
  return old.map(entry => resolveKey(store, directory, entry['metadata-file'], METADATA_PATH))
}

function withLog(next: TableMetadata, file: string, before: TableMetadata): TableMetadata {
  const entry = { 'metadata-file': file, 'timestamp-ms': before['last-updated-ms'] }
  return { ...next, 'metadata-log': [...before['metadata-log'], entry] }
}

/** Path of a version of the metadata, below the table. */
const METADATA_PATH = /^metadata\/v\d{1,16}\.metadata\.json$/

function metadataPath(directory: string, version: number): string {
  return `${directory}/metadata/v${version}.metadata.json`
}
