import type { Stats } from 'node:fs'
import { chmod, chown, lstat, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isNotChangeable, LAKE_DIRECTORY, PERMISSIONS, SPECIAL } from '#src/platform/access.ts'

const READ = 0o444
const WRITE = 0o222

/** Who reads a lake: what its own directory shows, which every run makes what the settings say. */
export type LakeAccess = {
  /** Of directories; files get its read bits. */
  readonly mode: number
  readonly group: number
}

export async function accessOf(lake: string): Promise<LakeAccess> {
  const { mode, gid } = await stat(lake)
  return { mode: mode & LAKE_DIRECTORY, group: gid }
}

/** Of a published file: read-only, so that nobody changes it by mistake. */
export function fileMode({ mode }: Pick<LakeAccess, 'mode'>): number {
  return mode & READ
}

/** Opens one file or directory to those who read the lake. */
export async function openToReaders(path: string, access: LakeAccess): Promise<void> {
  const about = await lstat(path)
  if (about.isSymbolicLink()) return
  const wanted = about.isDirectory() ? access.mode : fileMode(access)
  await alter(path, about, { mode: wanted, group: access.group })
}

/** Makes a snapshot as open as the lake is now; its own directory comes last, so it shows that all was done. */
export async function openSnapshotToReaders(directory: string, access: LakeAccess): Promise<void> {
  const { mode, gid } = await stat(directory)
  if ((mode & PERMISSIONS) === access.mode && gid === access.group) return
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const about = await lstat(path)
    // Where others could write, it may be a second name of another file: that must not be opened to anybody.
    if (about.isFile() && (about.mode & WRITE) !== 0)
      await alter(path, about, { mode: about.mode & fileMode(access), group: about.gid })
    else await openToReaders(path, access)
  }
  await openToReaders(directory, access)
}

/** What this user cannot change stays as it is: whoever made it so by hand has to go on with that. */
async function alter(path: string, about: Stats, { mode, group }: LakeAccess): Promise<void> {
  try {
    if (about.gid !== group) await chown(path, about.uid, group)
  } catch (error) {
    if (!isNotChangeable(error)) throw error
  }
  try {
    if ((about.mode & PERMISSIONS) !== mode) await chmod(path, mode | (about.mode & SPECIAL))
  } catch (error) {
    if (!isNotChangeable(error)) throw error
  }
}
