import { lstatSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { excess, LAKE_DIRECTORY } from './access.ts'

/**
 * Returns a directory for files that can be made again at any time: the one that holds Node's compile cache.
 * @returns null if it is missing, or other users can write to it.
 */
export function cacheDirectory(): string | null {
  const compiled = getCompileCacheDir()
  if (compiled === undefined) return null
  const directory = dirname(compiled)
  const about = lstatSync(directory, { throwIfNoEntry: false })
  if (!about?.isDirectory()) return null
  const isOurs = about.uid === (process.geteuid?.() ?? about.uid)
  return isOurs && excess(about.mode, LAKE_DIRECTORY) === 0 ? directory : null
}
