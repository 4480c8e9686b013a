import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Database } from '#src/core/warehouse/database.ts'
import { FatalError } from '#src/lib/errors.ts'
import type { CatalogSource } from './catalog.ts'
import { type Manifest, readLatest, requireLatest } from './manifest.ts'

/**
 * Opens the latest snapshot as a read-only database. The link is resolved once, so a snapshot published in the
 * meantime cannot mix with this one.
 * @throws FatalError if nothing was published yet.
 */
export async function openSnapshot(
  lake: string,
  temporaryDirectory = tmpdir(),
): Promise<{ db: Database; manifest: Manifest }> {
  const manifest = await requireLatest(lake)
  return { db: await openManifest(manifest, temporaryDirectory), manifest }
}

/** Opens the snapshot of this manifest as a read-only database, even if it is no longer the latest. */
export async function openManifest(
  { directory }: Manifest,
  temporaryDirectory = tmpdir(),
): Promise<Database> {
  return await Database.open(join(directory, 'catalog.duckdb'), { readOnly: true, temporaryDirectory })
}

/**
 * Returns the sources for a catalog over the latest snapshots.
 * @throws FatalError if there is none.
 */
export async function readLatestSources(lakes: readonly string[]): Promise<CatalogSource[]> {
  const manifests = (await Promise.all(lakes.map(readLatest))).filter(manifest => manifest !== null)
  if (manifests.length === 0) {
    throw new FatalError('No company has a snapshot yet. Run `editais sync --full` first.')
  }
  return manifests.map(makeSource)
}

/** Returns the files that a catalog's views read, as absolute paths. */
export function listFiles({ directory, files }: CatalogSource): string[] {
  return [...files.values()].flat().map(({ path }) => join(directory, path))
}

export function makeSource(manifest: Manifest): CatalogSource {
  const { company, snapshot, created_at, source_timezone, directory, tables } = manifest
  return {
    company,
    snapshot,
    publishedAt: created_at,
    sourceTimezone: source_timezone,
    directory,
    files: new Map(Object.entries(tables).map(([name, { files }]) => [name, files])),
  }
}
