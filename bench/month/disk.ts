import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { TABLES } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { snapshotsDirectory } from '#src/store/lake/manifest.ts'
import { rawLogSize } from '#src/store/rawlog/files.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { identifier } from '#src/store/warehouse/quoted.ts'
import { showRows } from '#src/store/warehouse/row_list.ts'

/** Disk usage of a company in bytes, and its rows. */
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
  readonly rows: Readonly<Record<string, number>>
}

/** Expects no writer at the same time. */
export async function measureDisk(paths: CompanyPaths): Promise<Disk> {
  const raw = await rawLogSize(paths.raw)
  const snapshots = (await readdir(snapshotsDirectory(paths.lake))).sort()
  const sizes = new Map<string, number>()
  let latestBytes = 0
  for (const name of snapshots) {
    const files = await filesOf(join(snapshotsDirectory(paths.lake), name))
    latestBytes = files.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const { inode, bytes } of files) sizes.set(inode, bytes)
  }
  return {
    segments: raw.segments,
    rawBytes: raw.bytes,
    ...(await measureWarehouse(paths)),
    snapshots: snapshots.length,
    latestBytes,
    snapshotBytes: [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0),
  }
}

async function filesOf(directory: string): Promise<{ inode: string; bytes: number }[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter(entry => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  return await Promise.all(
    paths.map(async path => {
      const { dev, ino, size } = await stat(path, { bigint: true })
      return { inode: `${dev}:${ino}`, bytes: Number(size) }
    }),
  )
}

async function measureWarehouse({ warehouse, rows }: CompanyPaths) {
  const db = await Database.open(warehouse, { readOnly: true, threads: 1 })
  try {
    await showRows(db, rows)
    const { free } = await db.row<{ free: number }>(
      'SELECT block_size * free_blocks AS free FROM pragma_database_size()',
    )
    const counts = TABLES.map(
      ({ name }) => `(SELECT count(*) FROM ${identifier(name)}) AS ${identifier(name)}`,
    )
    return {
      warehouseBytes: (await stat(warehouse)).size,
      warehouseFreeBytes: free,
      rows: await db.row<Record<string, number>>(`SELECT ${counts.join(', ')}`),
    }
  } finally {
    db.close()
  }
}
