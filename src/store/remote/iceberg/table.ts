import type { Expired, Expiry, OpenTable, TableFormat } from '../format.ts'
import type { ObjectStore } from '../objects.ts'
import {
  commit,
  commitMetadata,
  filesOf,
  hintPath,
  keyOf,
  metadataPath,
  objectsOf,
  openTable,
  type Table,
} from './commit.ts'
import { keeping, SNAPSHOT_TAG } from './metadata.ts'

/** Iceberg v2 tables. */
export const ICEBERG: TableFormat = {
  async open(store, directory, known) {
    const table = await openTable(store, directory, known)
    const files = filesOf(store, table)
    return {
      version: table.version === 0 ? null : table.version,
      files: new Set(files.map(({ path }) => path)),
      commit: wanted => commit(store, table, wanted),
      read: async () => files,
      expire: older => expire(store, table, older),
    } satisfies OpenTable
  },
}

async function expire(store: ObjectStore, table: Table, older: Expiry): Promise<Expired> {
  const names = Object.keys(table.metadata.refs).filter(ref => ref.startsWith(SNAPSHOT_TAG))
  const snapshots = names.map(name => name.slice(SNAPSHOT_TAG.length)).sort()
  const expired = expiredOf(snapshots, older)
  const metadata = keeping(table.metadata, expired, older.now)
  const version = await commitMetadata(store, table, metadata)
  const forgotten = table.metadata.snapshots.filter(one => !metadata.snapshots.includes(one))
  const own = [metadataPath(table.directory, version), hintPath(table.directory)]
  return {
    version,
    removed: expired.size,
    kept: snapshots.length - expired.size,
    named: new Set([...own, ...(await objectsOf(store, metadata.snapshots))]),
    superseded: new Set([...oldMetadata(store, table, older), ...(await objectsOf(store, forgotten))]),
  }
}

/** Versions of the metadata: `latest.json` named each of them once. */
function oldMetadata(store: ObjectStore, { metadata }: Table, { keepMs, now }: Expiry): string[] {
  const log = metadata['metadata-log']
  const supersededAt = (index: number) => log[index + 1]?.['timestamp-ms'] ?? metadata['last-updated-ms']
  const old = log.filter((_, index) => now.getTime() - supersededAt(index) > keepMs)
  return old.map(entry => keyOf(store, entry['metadata-file']))
}

/** What counts is when a newer one appeared: until then readers could begin to read it. Names begin with their time. */
function expiredOf(names: readonly string[], { keepMs, now }: Expiry): ReadonlySet<string> {
  const expired = names.filter((_, index) => {
    const successor = names[index + 1]
    return successor !== undefined && now.getTime() - timeOf(successor) > keepMs
  })
  return new Set(expired)
}

/** `20261123T070105Z-000020`. */
function timeOf(snapshot: string): number {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(snapshot) ?? []
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
}
