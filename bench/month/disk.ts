import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { CompanyPaths } from '#src/store/company.ts'
import { snapshotsDirectory } from '#src/store/lake/manifest.ts'
import { rawLogSize } from '#src/store/rawlog/files.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { showRows } from '#src/store/warehouse/row_list.ts'
import { filesOf } from '../company/files.ts'
import { sum } from '../frame/figures.ts'

/** Disk usage of a company in bytes. */
export type Disk = {
  readonly segments: number
  readonly rawBytes: number
  readonly warehouseBytes: number
  /** Of these, blocks that no row uses any more and DuckDB reuses first. */
  readonly warehouseFreeBytes: number
  readonly snapshots: number
  /** Of all files of all snapshots; a shared file counts once. */
  readonly snapshotBytes: number
  /** Of the latest snapshot. */
  readonly latestBytes: number
  /** Rows of `sync_runs`. */
  readonly runs: number
}

/** Expects no writer at the same time. */
export async function measureDisk(paths: CompanyPaths): Promise<Disk> {
  const raw = await rawLogSize(paths.raw)
  const snapshots = (await readdir(snapshotsDirectory(paths.lake))).sort()
  const sizes = new Map<string, number>()
  let latestBytes = 0
  for (const name of snapshots) {
    const files = await filesOf(join(snapshotsDirectory(paths.lake), name))
    latestBytes = sum(files.map(({ bytes }) => bytes))
    for (const { inode, bytes } of files) sizes.set(inode, bytes)
  }
  return {
    segments: raw.segments,
    rawBytes: raw.bytes,
    ...(await measureWarehouse(paths)),
    snapshots: snapshots.length,
    latestBytes,
    snapshotBytes: sum([...sizes.values()]),
  }
}

async function measureWarehouse({ warehouse, rows }: CompanyPaths) {
  const db = await Database.open(warehouse, { readOnly: true, threads: 1 })
  try {
    await showRows(db, rows)
    const { free, runs } = await db.row<{ free: number; runs: number }>(
      'SELECT block_size * free_blocks AS free, (SELECT count(*) FROM sync_runs) AS runs FROM pragma_database_size()',
    )
    return { warehouseBytes: (await stat(warehouse)).size, warehouseFreeBytes: free, runs }
  } finally {
    db.close()
  }
}
