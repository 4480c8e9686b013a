import { readdir, readFile, readlink, realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Database } from '#src/core/warehouse/database.ts'
import { remove } from '#src/lib/durable.ts'
import { FatalError } from '#src/lib/errors.ts'
import type { StoredInputs } from './catalog.ts'

/** If only `sync_runs` changed, one snapshot per hour is enough to watch freshness. */
export const RUNS_ONLY_INTERVAL_MS = 60 * 60_000

/** One Parquet file of a snapshot. */
export type SnapshotFile = {
  /** Relative to the snapshot's directory. */
  readonly path: string
  /** `YYYY-MM` of the notices' `created_at` in UTC; null for a file with all months. */
  readonly month: string | null
  readonly rows: number
  readonly bytes: number
  readonly sha256: string
}

/** The marts as Parquet files, as of a day; none if they are only made for the object store. */
export type MartFiles = { readonly day: string; readonly files: readonly SnapshotFile[] }

/** `manifest.json`, written last: a snapshot without one was never finished. */
export type Manifest = {
  readonly snapshot: string
  readonly company: string
  readonly created_at: string
  /** Time zone of the local times in its marts. */
  readonly source_timezone: string
  /** Absolute; the catalog's views hold absolute paths too. */
  readonly directory: string
  /** The warehouse that it was written from; a rebuilt warehouse has another id. */
  readonly warehouse_id: string
  readonly schema_hash: string
  /** Hash of its catalog's views and comments. */
  readonly catalog_hash: string
  /** Hash of the catalog file; if it no longer matches, later snapshots do not copy the file. */
  readonly catalog_sha256: string
  /**
   * By mart, what the rows in its catalog follow from; while it is the same, later snapshots copy them. Version 0.3.0 wrote one text for
   * all, 0.2.0 none.
   */
  readonly stored_inputs?: StoredInputs
  readonly data_version: number
  /** The name of the raw log. Version 0.2.0 did not write it. */
  readonly log?: string | null
  /** The last segment of the raw log whose changes it holds. */
  readonly applied_segment: number
  readonly run_id: string | null
  /** Its live notices by phase, so that their counts need no database. Version 0.2.0 did not write them. */
  readonly notices?: readonly NoticeCounts[]
  /** Only with LAKE_MARTS or LAKE_URL. */
  readonly marts?: MartFiles
  readonly tables: Readonly<
    Record<string, { readonly rows: number; readonly bytes: number; readonly files: readonly SnapshotFile[] }>
  >
}

/** Returns all Parquet files of a snapshot. */
export function listPublishedFiles({ tables, marts }: Pick<Manifest, 'tables' | 'marts'>): SnapshotFile[] {
  return [...Object.values(tables).flatMap(({ files }) => files), ...(marts?.files ?? [])]
}

/** Counts the bytes of all Parquet files of a snapshot, including those shared with earlier ones. */
export function countPublishedBytes(manifest: Manifest): number {
  return listPublishedFiles(manifest).reduce((sum, { bytes }) => sum + bytes, 0)
}

export function snapshotsDirectory(lake: string): string {
  return join(lake, 'snapshots')
}

export function latestLink(lake: string): string {
  return join(lake, 'latest')
}

/** Returns the manifest of one snapshot; null if it is missing or unreadable. */
export async function readManifest(directory: string): Promise<Manifest | null> {
  try {
    return JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as Manifest
  } catch {
    return null
  }
}

/** Returns the name of the snapshot that `latest` points to; null if there is none. */
export async function readLatestName(lake: string): Promise<string | null> {
  return await readlink(latestLink(lake)).then(basename, () => null)
}

/**
 * Returns the finished snapshots in the order in which they were written: those of one warehouse by their place in its log,
 * because clocks can go back, and warehouses by their last snapshots: a rebuilt one may be of another log.
 */
export async function listFinishedSnapshots(directory: string): Promise<Manifest[]> {
  const manifests = await Promise.all(
    (await readdir(directory)).map(name => readManifest(join(directory, name))),
  )
  const warehouses = Map.groupBy(
    manifests.filter(manifest => manifest !== null),
    ({ warehouse_id }) => warehouse_id,
  )
  return [...warehouses.values()]
    .map(snapshots => snapshots.sort((a, b) => a.applied_segment - b.applied_segment || compareWritten(a, b)))
    .sort((a, b) => compareWritten(a.at(-1) as Manifest, b.at(-1) as Manifest))
    .flat()
}

function compareWritten(a: Manifest, b: Manifest): number {
  return a.created_at.localeCompare(b.created_at) || a.snapshot.localeCompare(b.snapshot)
}

/**
 * Returns the newest snapshot of this warehouse: by log position, because clocks can go back. If this warehouse has no
 * snapshot yet, as after a rebuild, the newest of another warehouse.
 */
export function findNewest(finished: readonly Manifest[], warehouseId: string): Manifest | null {
  const rank = (manifest: Manifest) => (manifest.warehouse_id === warehouseId ? manifest.applied_segment : -1)
  return finished.reduce<Manifest | null>(
    (newest, manifest) => (newest === null || rank(manifest) >= rank(newest) ? manifest : newest),
    null,
  )
}

/**
 * Returns the manifest of the latest snapshot.
 * @throws FatalError if nothing was published yet, or the snapshot was moved since.
 */
export async function requireLatest(lake: string): Promise<Manifest> {
  const manifest = await readLatest(lake)
  if (manifest) return manifest
  throw new FatalError(`There is no snapshot in ${lake} yet. Run \`editais sync --full\` first.`)
}

/**
 * Returns the manifest of the latest snapshot; null if nothing was published yet.
 * @throws FatalError if the snapshot was moved since.
 */
export async function readLatest(lake: string): Promise<Manifest | null> {
  const directory = await realpath(latestLink(lake)).catch(() => null)
  const manifest = directory && (await readManifest(directory))
  if (!directory || !manifest) return null
  // The path may contain links.
  if ((await realpath(manifest.directory).catch(() => null)) !== directory) {
    throw new FatalError(
      `The snapshot was published as ${manifest.directory} and was moved since. Run \`editais publish\` to write a new one here.`,
    )
  }
  return manifest
}

/** Kept at any age: the latest, and the one before it, which readers may have just opened. */
const ALWAYS_KEPT = 2

/**
 * Removes snapshots that were superseded longer than `keepMs` ago, but none of `inUse`. What counts is when a
 * newer one appeared, not when the snapshot was written, because readers opened it until then.
 * @param manifests of all existing snapshots, in the order in which they were written.
 * @returns the remaining ones.
 */
export async function removeExpired(
  directory: string,
  manifests: readonly Manifest[],
  { keepMs, now, inUse }: { keepMs: number; now: Date; inUse: readonly (string | null | undefined)[] },
): Promise<Manifest[]> {
  const expired = manifests.slice(0, -ALWAYS_KEPT).filter(({ snapshot, created_at }, index) => {
    const successor = manifests[index + 1]
    if (inUse.includes(snapshot) || successor === undefined) return false
    // The successor may look older if the clock was set back or the log was truncated.
    const since = Math.max(Date.parse(successor.created_at), Date.parse(created_at))
    return now.getTime() - since > keepMs
  })
  for (const { snapshot } of expired) {
    // The manifest goes first: a half-removed snapshot must not look complete.
    await remove('expired.unlist', join(directory, snapshot, 'manifest.json'))
    await remove('expired.remove', join(directory, snapshot))
  }
  return manifests.filter(manifest => !expired.includes(manifest))
}

/** Live notices in a phase, or in `all` of them, by the state of their analyses. */
export type NoticeCounts = {
  readonly status: string
  readonly notices: number
  readonly current: number
  readonly pending: number
  readonly quarantined: number
  readonly excluded: number
}

/** Counts the notices by status. @param db a warehouse or a snapshot. */
export async function countNotices(db: Database): Promise<NoticeCounts[]> {
  return await db.rows<NoticeCounts>(`SELECT coalesce(status, 'all') AS status, count(*) AS notices,
      count(*) FILTER (analysis_state = 'current') AS current, count(*) FILTER (analysis_state = 'pending') AS pending,
      count(*) FILTER (analysis_state = 'quarantined') AS quarantined, count(*) FILTER (analysis_state = 'excluded') AS excluded
    FROM editais WHERE deleted_at IS NULL GROUP BY GROUPING SETS ((status), ()) ORDER BY grouping(status), status`)
}
