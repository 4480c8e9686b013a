import { chmodSync, chownSync, lstatSync, type Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isNotChangeable, LAKE_DIRECTORY, PERMISSIONS, SPECIAL } from '#src/lib/access.ts'

const READ = 0o444
const WRITE = 0o222

/** The readers of a lake, as its directory's mode and group show; every run sets those from the settings. */
export type LakeAccess = {
  /** Mode of directories; files get its read bits. */
  readonly mode: number
  readonly group: number
}

export async function readAccess(lake: string): Promise<LakeAccess> {
  const { mode, gid } = await stat(lake)
  return { mode: mode & LAKE_DIRECTORY, group: gid }
}

/** Returns the mode of a published file: read-only, to prevent accidental changes. */
function fileMode({ mode }: Pick<LakeAccess, 'mode'>): number {
  return mode & READ
}

/** Opens one file or directory to the lake's readers. */
export function openToReaders(path: string, access: LakeAccess): void {
  const about = lstatSync(path)
  if (about.isSymbolicLink()) return
  const wanted = about.isDirectory() ? access.mode : fileMode(access)
  alter(path, about, { mode: wanted, group: access.group })
}

/** Applies the lake's current access to a snapshot. Its own directory comes last, as a mark that all is done. */
export async function openSnapshotToReaders(directory: string, access: LakeAccess): Promise<void> {
  const { mode, gid } = await stat(directory)
  if ((mode & PERMISSIONS) === access.mode && gid === access.group) return
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const about = lstatSync(path)
    // If others could write here, it may be a hard link to another file, which must not be opened to anyone.
    if (about.isFile() && (about.mode & WRITE) !== 0)
      alter(path, about, { mode: about.mode & fileMode(access), group: about.gid })
    else openToReaders(path, access)
  }
  openToReaders(directory, access)
}

/** Sets mode and group. Skips what this user cannot change: the user who set it by hand is responsible for it. */
function alter(path: string, about: Stats, { mode, group }: LakeAccess): void {
  try {
    if (about.gid !== group) chownSync(path, about.uid, group)
  } catch (error) {
    if (!isNotChangeable(error)) throw error
  }
  try {
    if ((about.mode & PERMISSIONS) !== mode) chmodSync(path, mode | (about.mode & SPECIAL))
  } catch (error) {
    if (!isNotChangeable(error)) throw error
  }
}
