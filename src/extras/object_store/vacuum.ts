import { type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'
import {
  type Expired,
  type Expiry,
  type Formats,
  type Latest,
  listTableNames,
  readRemoteLatest,
  replaceLatest,
  type TableKeeper,
  tableKey,
  type Versioned,
} from './tables/format.ts'

type Vacuumed = {
  /** Counts of the table that had the most. */
  readonly snapshotsRemoved: number
  readonly snapshotsKept: number
  readonly objectsRemoved: number
  readonly bytesRemoved: number
}

type VacuumRequest = Omit<Expiry, 'latest'> & { readonly company: string; readonly formats: Formats }

/** Objects that nothing names are removed only when they are older: a publish may be about to name them. */
const GRACE_MS = 24 * 3_600_000

/**
 * Removes snapshots that were superseded longer than `keepMs` ago, then the objects that no kept snapshot names, and what
 * interrupted uploads left. The caller holds the company's lock.
 * @throws RemoteError if nothing was published yet, or a publish must be finished first.
 */
export async function vacuumRemote(store: ObjectStore, request: VacuumRequest): Promise<Vacuumed> {
  const { company, formats, now } = request
  const { latest, tag } = await requirePublished(store, company)
  const tables = listTableNames(latest, formats)
  const versions: Partial<Record<TableKeeper, Record<string, number>>> = {}
  const expired = new Map<string, readonly Expired[]>()
  for (const table of tables) {
    const each: Expired[] = []
    for (const format of formats.keys()) {
      const one = await expireTable(latest, { formats, format, table, older: request })
      if (one === null) continue
      each.push(one)
      if (one.version !== null) versions[format] = { ...versions[format], [table]: one.version }
    }
    expired.set(table, each)
  }
  await replaceLatest(store, { ...latest, ...versions }, tag)
  const removed = { objectsRemoved: 0, bytesRemoved: 0 }
  for (const [table, each] of expired)
    await removeUnnamed(store, { directory: tableKey(company, table), each, now, removed })
  const most = (of: 'removed' | 'kept') => Math.max(0, ...[...expired.values()].flat().map(one => one[of]))
  return { snapshotsRemoved: most('removed'), snapshotsKept: most('kept'), ...removed }
}

async function requirePublished(store: ObjectStore, company: string): Promise<Versioned> {
  const published = await readRemoteLatest(store, company)
  if (published === null)
    throw new RemoteError(`${store.root} has no data for ${company} yet. The next run publishes it.`)
  const { pending } = published.latest
  if (pending !== null)
    throw new RemoteError(
      `The publish of ${pending.snapshot} is not finished. Run \`editais lake publish\` first.`,
    )
  return published
}

/** Expires the snapshots of a table; null if it is not published in this format. */
async function expireTable(
  latest: Latest,
  about: { formats: Formats; format: TableKeeper; table: string; older: Omit<Expiry, 'latest'> },
): Promise<Expired | null> {
  const { formats, format, table, older } = about
  const known = latest[format]?.[table]
  if (known === undefined) return null
  const opened = await formats.get(format)?.open(table, known)
  return (await opened?.expire({ ...older, latest: latest.snapshot })) ?? null
}

/** Objects that only forgotten versions named are removed at once, other unnamed ones when they are old. */
async function removeUnnamed(
  store: ObjectStore,
  about: {
    readonly directory: string
    readonly each: readonly Expired[]
    readonly now: Date
    readonly removed: { objectsRemoved: number; bytesRemoved: number }
  },
): Promise<void> {
  const { directory, each, now, removed } = about
  const unnamed: string[] = []
  for await (const { key, bytes, modified } of store.list(`${directory}/`)) {
    if (each.some(({ isNamed }) => isNamed(key))) continue
    const isSuperseded = each.some(({ superseded }) => superseded.has(key))
    if (!isSuperseded && now.getTime() - modified.getTime() <= GRACE_MS) continue
    unnamed.push(key)
    removed.objectsRemoved += 1
    removed.bytesRemoved += bytes
  }
  await store.remove(unnamed)
}
