import { mkdir, readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { accessOf } from '#src/core/lake/access.ts'
import { writeMarts } from '#src/core/lake/export.ts'
import { type Manifest, type MartFiles, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import { move, remove, syncDirectory, syncFile, writeNew } from '#src/lib/durable.ts'

/**
 * The marts of snapshots that do not have them as files: made when a snapshot is published to the object store, so that
 * no run takes longer for it. Kept until the next one is there, because marts computed again may be of another day.
 */

/** The places of the snapshot's files and its marts. */
export type Local = { readonly manifest: Manifest; readonly directory: string; readonly marts: string }

type Places = { readonly lake: string; readonly martsDirectory: string }

/** Adds the marts to a manifest, and makes those that are missing. */
export async function withMarts(
  db: Database,
  manifest: Manifest,
  { lake, martsDirectory }: Places,
): Promise<Local> {
  const directory = join(snapshotsDirectory(lake), manifest.snapshot)
  if (manifest.marts && manifest.marts.files.length > 0) return { manifest, directory, marts: directory }
  const own = join(martsDirectory, manifest.snapshot)
  // A snapshot from before LAKE_URL was set has no day.
  const day = manifest.marts?.day ?? manifest.created_at.slice(0, 'YYYY-MM-DD'.length)
  const marts = (await readMarts(own)) ?? (await makeMarts(db, day, directory, own))
  return { manifest: { ...manifest, marts }, directory, marts: own }
}

/** Returns the marts that `withMarts` made for this snapshot; null if they are gone. */
export async function readMarts(directory: string): Promise<MartFiles | null> {
  const text = await readFile(join(directory, 'manifest.json'), 'utf8').catch(() => null)
  return text === null ? null : (JSON.parse(text) as MartFiles)
}

async function makeMarts(db: Database, day: string, snapshot: string, directory: string): Promise<MartFiles> {
  // Left by an attempt that died.
  await remove('temporary.remove', directory)
  await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY })
  const access = await accessOf(directory)
  const marts = await writeMarts(db, join(snapshot, 'catalog.duckdb'), { directory, access, day })
  const part = join(directory, 'manifest.json.part')
  await writeNew(part, `${JSON.stringify(marts)}\n`)
  await syncFile('manifest.sync', part)
  await move('manifest.rename', part, join(directory, 'manifest.json'))
  await syncDirectory('manifest.directory', directory)
  const parent = dirname(directory)
  for (const each of [parent, dirname(parent)]) await syncDirectory('snapshots.directory', each)
  return marts
}

/** Removes the marts of all other snapshots. */
export async function keepMarts(directory: string, kept: readonly (string | null)[]): Promise<void> {
  for (const name of await readdir(directory).catch(() => [] as string[]))
    if (!kept.includes(name)) await remove('temporary.remove', join(directory, name))
}
