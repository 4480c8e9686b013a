import { readdir, readFile, readlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { NoticeCounts } from './notice_counts.ts'

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
export function publishedFiles({ tables, marts }: Pick<Manifest, 'tables' | 'marts'>): SnapshotFile[] {
  return [...Object.values(tables).flatMap(({ files }) => files), ...(marts?.files ?? [])]
}

/** Counts the bytes of all Parquet files of a snapshot, including those shared with earlier ones. */
export function publishedBytes(manifest: Manifest): number {
  return publishedFiles(manifest).reduce((sum, { bytes }) => sum + bytes, 0)
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
export async function latestName(lake: string): Promise<string | null> {
  return await readlink(latestLink(lake)).then(basename, () => null)
}

/**
 * Returns the finished snapshots in the order in which they were written: those of one warehouse by their place in its log,
 * because clocks can go back, and warehouses by their last snapshots: a rebuilt one may be of another log.
 */
export async function finishedSnapshots(directory: string): Promise<Manifest[]> {
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
export function newestOf(finished: readonly Manifest[], warehouseId: string): Manifest | null {
  const rank = (manifest: Manifest) => (manifest.warehouse_id === warehouseId ? manifest.applied_segment : -1)
  return finished.reduce<Manifest | null>(
    (newest, manifest) => (newest === null || rank(manifest) >= rank(newest) ? manifest : newest),
    null,
  )
}
