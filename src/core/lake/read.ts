import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { FatalError } from '#src/lib/errors.ts'
import { type CatalogSource, catalogHash, createRelations } from './catalog.ts'
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

/**
 * Opens the latest snapshot with the marts of this version of the program, even if another one wrote it: otherwise what
 * asks them would fail after an upgrade, until the next run.
 * @throws FatalError if nothing was published yet, or tables of the snapshot lack columns.
 */
export async function openWithOurMarts(
  lake: string,
  temporaryDirectory = tmpdir(),
): Promise<{ db: Database; sources: readonly CatalogSource[] }> {
  const manifest = await requireLatest(lake)
  if (manifest.catalog_hash === (await catalogHash(manifest.source_timezone)))
    return { db: await openManifest(manifest, temporaryDirectory), sources: [sourceOf(manifest)] }
  return await openSnapshots([lake], temporaryDirectory)
}

/** Opens the snapshot of this manifest as a read-only database, even if it is no longer the latest. */
export async function openManifest(
  { directory }: Manifest,
  temporaryDirectory = tmpdir(),
): Promise<Database> {
  return await Database.open(join(directory, 'catalog.duckdb'), { readOnly: true, temporaryDirectory })
}

/** Has the marts of an open snapshot count days from this moment, not from the clock: then the same data give the same rows. */
export async function countDaysFrom(db: Database, moment: Date): Promise<void> {
  await db.run(`SET VARIABLE editais_agora = ${literal(moment.toISOString())}::TIMESTAMPTZ`)
}

/**
 * Opens the latest snapshots of several companies as one database, without companies that have none.
 * @throws FatalError if no company has a snapshot.
 */
export async function openSnapshots(
  lakes: readonly string[],
  temporaryDirectory = tmpdir(),
): Promise<{ db: Database; sources: readonly CatalogSource[] }> {
  const sources = await latestSources(lakes)
  const db = await Database.open(':memory:', { temporaryDirectory })
  try {
    await db.transaction(() => createRelations(db, sources))
    return { db, sources }
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * Returns the sources for a catalog over the latest snapshots.
 * @throws FatalError if there is none.
 */
export async function latestSources(lakes: readonly string[]): Promise<CatalogSource[]> {
  const manifests = (await Promise.all(lakes.map(readLatest))).filter(manifest => manifest !== null)
  if (manifests.length === 0) {
    throw new FatalError('No company has a snapshot yet. Run `editais sync --full` first.')
  }
  return manifests.map(sourceOf)
}

/** Returns the files that a catalog's views read, as absolute paths. */
export function listFiles({ directory, files }: CatalogSource): string[] {
  return [...files.values()].flat().map(({ path }) => join(directory, path))
}

export function sourceOf(manifest: Manifest): CatalogSource {
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
