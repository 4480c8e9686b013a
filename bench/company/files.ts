import { readdir, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'

/** A file below a directory; equal inodes are one file with several names. */
type File = { readonly path: string; readonly bytes: number; readonly inode: string }

/** All files below a directory, except those that vanish meanwhile. */
export async function filesOf(directory: string): Promise<File[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(error =>
    error.code === 'ENOENT' && error.path !== directory ? null : Promise.reject(error),
  )
  // A directory below it vanished meanwhile.
  if (entries === null) return await filesOf(directory)
  const paths = entries.filter(entry => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const found = await Promise.all(
    paths.map(async path => {
      const at = await stat(path, { bigint: true }).catch(() => null)
      return at && { path: relative(directory, path), bytes: Number(at.size), inode: `${at.dev}:${at.ino}` }
    }),
  )
  return found.filter(file => file !== null)
}
