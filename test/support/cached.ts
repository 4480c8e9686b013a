import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** What tests install of other registries, below this project. */
export const CACHE = join(import.meta.dirname, '../../node_modules/.cache')

/** Replaces a directory of the cache with what `fill` puts into an empty one: as a whole, or not at all. */
export async function replaceCached(
  directory: string,
  fill: (unfinished: string) => Promise<void>,
): Promise<void> {
  await mkdir(CACHE, { recursive: true })
  const unfinished = await mkdtemp(join(CACHE, 'unfinished-'))
  try {
    await fill(unfinished)
    await rm(directory, { recursive: true, force: true })
    await rename(unfinished, directory)
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}
