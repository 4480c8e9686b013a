import { commitMetadata, hintPath, metadataPath, objectsOf, openTable, type Table } from './iceberg/commit.ts'
import { keeping, SNAPSHOT_TAG } from './iceberg/metadata.ts'
import { type ObjectStore, RemoteError } from './objects.ts'
import { readLatest, replaceLatest, tableKey, type Versioned } from './publish.ts'

export type Vacuumed = {
  readonly snapshotsRemoved: number
  readonly snapshotsKept: number
  readonly objectsRemoved: number
  readonly bytesRemoved: number
}

/** Objects that nothing names are removed only when they are older: a publish may be about to name them. */
const GRACE_MS = 24 * 3_600_000
/**
 * Removes snapshots that were superseded longer than `keepMs` ago, then the objects that no kept snapshot names, and what
 * dead uploads left. The caller holds the company's lock.
 * @throws RemoteError if nothing was published yet, or a publish must be finished first.
 */
export async function vacuumRemote(
  store: ObjectStore,
  { company, keepMs, now }: { readonly company: string; readonly keepMs: number; readonly now: Date },
): Promise<Vacuumed> {
  const published = await requirePublished(store, company)
  const tables = await Promise.all(
    Object.entries(published.latest.tables).map(([name, version]) =>
      openTable(store, tableKey(company, name), version).then(table => ({ name, table })),
    ),
  )
  const names = new Set(tables.flatMap(({ table }) => snapshotsOf(table)))
  const expired = expiredOf([...names].sort(), { keepMs, now, latest: published.latest.snapshot })
  const versions: Record<string, number> = {}
  const works: Work[] = []
  for (const { name, table } of tables) {
    const metadata = keeping(table.metadata, expired)
    const version = await commitMetadata(store, table, metadata)
    versions[name] = version
    works.push({ before: table, after: { ...table, metadata, version } })
  }
  await replaceLatest(store, { ...published.latest, tables: versions }, published.tag)
  const removed = { objectsRemoved: 0, bytesRemoved: 0 }
  for (const work of works) await removeUnnamed(store, work, now, removed)
  return { snapshotsRemoved: expired.size, snapshotsKept: names.size - expired.size, ...removed }
}

/** A table before and after its expired snapshots were removed from its metadata. */
type Work = { readonly before: Table; readonly after: Table }

async function requirePublished(store: ObjectStore, company: string): Promise<Versioned> {
  const published = await readLatest(store, company)
  if (published === null)
    throw new RemoteError(`${store.root} has nothing of ${company} yet. The next run publishes.`)
  const { pending } = published.latest
  if (pending !== null)
    throw new RemoteError(
      `The publish of ${pending.snapshot} is not finished. Run \`npm run lake -- publish\` first.`,
    )
  return published
}

function snapshotsOf({ metadata }: Table): string[] {
  const tags = Object.keys(metadata.refs).filter(ref => ref.startsWith(SNAPSHOT_TAG))
  return tags.map(tag => tag.slice(SNAPSHOT_TAG.length))
}

/** What counts is when a newer one appeared: until then readers could begin to read it. Names begin with their time. */
function expiredOf(
  names: readonly string[],
  { keepMs, now, latest }: { keepMs: number; now: Date; latest: string | null },
): ReadonlySet<string> {
  const expired = names.filter((name, index) => {
    const successor = names[index + 1]
    return name !== latest && successor !== undefined && now.getTime() - timeOf(successor) > keepMs
  })
  return new Set(expired)
}

/** `20261123T070105Z-000020`. */
function timeOf(snapshot: string): number {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(snapshot) ?? []
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
}

/** What expired snapshots alone named goes at once, everything else that has no name when it is old. */
async function removeUnnamed(
  store: ObjectStore,
  { before, after }: Work,
  now: Date,
  removed: { objectsRemoved: number; bytesRemoved: number },
): Promise<void> {
  const kept = after.metadata.snapshots
  const expired = before.metadata.snapshots.filter(one => !kept.includes(one))
  const named = await objectsOf(store, kept)
  const wereNamed = await objectsOf(store, expired)
  const own = new Set([metadataPath(after.directory, after.version), hintPath(after.directory)])
  const unnamed: string[] = []
  for await (const { key, bytes, modified } of store.list(`${after.directory}/`)) {
    const uri = `${store.root}/${key}`
    if (own.has(key) || named.has(uri)) continue
    if (!wereNamed.has(uri) && now.getTime() - modified.getTime() <= GRACE_MS) continue
    unnamed.push(key)
    removed.objectsRemoved += 1
    removed.bytesRemoved += bytes
  }
  await store.remove(unnamed)
}
