import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FatalError } from '#src/errors.ts'
import { Database } from '#src/warehouse/database.ts'
import { latestLink, type Manifest, readManifest } from './manifest.ts'

/**
 * Opens the latest snapshot as a database, read-only. The link is resolved once: a snapshot published
 * meanwhile cannot mix with this one.
 * @throws FatalError when nothing was published yet.
 */
export async function openSnapshot(lake: string): Promise<{ db: Database; manifest: Manifest }> {
  const directory = await realpath(latestLink(lake)).catch(() => null)
  const manifest = directory && (await readManifest(directory))
  if (!directory || !manifest) {
    throw new FatalError(`There is no snapshot in ${lake} yet. Run \`npm run sync -- --full\` first.`)
  }
  if (manifest.directory !== directory) {
    throw new FatalError(
      `The snapshot was published as ${manifest.directory} and was moved since. Run \`npm run publish\` to write one for this place.`,
    )
  }
  return {
    db: await Database.open(join(directory, 'catalog.duckdb'), {
      readOnly: true,
      temporaryDirectory: tmpdir(),
    }),
    manifest,
  }
}
