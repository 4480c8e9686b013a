import { realpath } from 'node:fs/promises'
import { FatalError } from '#src/lib/errors.ts'
import { latestLink, type Manifest, readManifest } from './manifest.ts'

/**
 * Returns the manifest of the latest snapshot.
 * @throws FatalError if nothing was published yet, or the snapshot was moved since.
 */
export async function requireLatest(lake: string): Promise<Manifest> {
  const manifest = await readLatest(lake)
  if (manifest) return manifest
  throw new FatalError(`There is no snapshot in ${lake} yet. Run \`npm run sync -- --full\` first.`)
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
      `The snapshot was published as ${manifest.directory} and was moved since. Run \`npm run publish\` to write a new one here.`,
    )
  }
  return manifest
}
