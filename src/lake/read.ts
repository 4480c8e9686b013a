import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FatalError } from '#src/errors.ts'
import { Database } from '#src/warehouse/database.ts'
import { type CatalogSource, createViews } from './catalog.ts'
import { latestLink, type Manifest, readManifest } from './manifest.ts'

/**
 * Opens the latest snapshot as a database, read-only. The link is resolved once: a snapshot published
 * meanwhile cannot mix with this one.
 * @throws FatalError when nothing was published yet.
 */
export async function openSnapshot(lake: string): Promise<{ db: Database; manifest: Manifest }> {
  const manifest = await readLatest(lake)
  if (!manifest) {
    throw new FatalError(`There is no snapshot in ${lake} yet. Run \`npm run sync -- --full\` first.`)
  }
  const catalog = join(manifest.directory, 'catalog.duckdb')
  return { db: await Database.open(catalog, { readOnly: true, temporaryDirectory: tmpdir() }), manifest }
}

/**
 * The latest snapshots of several companies as one database; those without a snapshot are not in it.
 * @throws FatalError when none has one.
 */
export async function openSnapshots(lakes: readonly string[]): Promise<Database> {
  const sources = await latestSources(lakes)
  const db = await Database.open(':memory:', { temporaryDirectory: tmpdir() })
  try {
    await createViews(db, sources)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * What a catalog over the latest snapshots is made of.
 * @throws FatalError when there is none.
 */
export async function latestSources(lakes: readonly string[]): Promise<CatalogSource[]> {
  const manifests = (await Promise.all(lakes.map(readLatest))).filter(manifest => manifest !== null)
  if (manifests.length === 0) {
    throw new FatalError('No company has a snapshot yet. Run `npm run sync -- --full` first.')
  }
  return manifests.map(({ company, snapshot, created_at, source_timezone, directory, tables }) => ({
    ...{ company, snapshot, publishedAt: created_at, sourceTimezone: source_timezone, directory },
    files: new Map(Object.entries(tables).map(([name, { files }]) => [name, files])),
  }))
}

/**
 * The manifest of the latest snapshot; null where nothing was published yet.
 * @throws FatalError when it cannot be read where it lies.
 */
async function readLatest(lake: string): Promise<Manifest | null> {
  const directory = await realpath(latestLink(lake)).catch(() => null)
  const manifest = directory && (await readManifest(directory))
  if (!directory || !manifest) return null
  const again = 'Run `npm run publish` to write one'
  if (manifest.directory !== directory) {
    throw new FatalError(
      `The snapshot was published as ${manifest.directory} and was moved since. ${again} for this place.`,
    )
  }
  if (!manifest.source_timezone) {
    throw new FatalError(`The snapshot ${directory} is of an older version. ${again} of this one.`)
  }
  return manifest
}
