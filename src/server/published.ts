import { join } from 'node:path'
import { latestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import type { FeedSnapshot } from './feed/feed.ts'
import { feedSnapshot } from './snapshot_files.ts'

/** Returns what the feed needs of the latest published snapshot; null before the first. */
export async function latestForFeed(lake: string): Promise<FeedSnapshot | null> {
  const name = await latestName(lake)
  if (name === null) return null
  const directory = join(snapshotsDirectory(lake), name)
  const manifest = await readManifest(directory)
  if (!manifest) throw new Error(`${directory} has no manifest`)
  return feedSnapshot(manifest, directory)
}
