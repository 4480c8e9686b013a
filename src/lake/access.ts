import { chmod, chown, lstat, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isNotChangeable, LAKE_DIRECTORY } from '#src/access.ts'

const READ = 0o444
const SPECIAL = 0o7000

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
  const wanted = about.isDirectory() ? access.mode | (about.mode & SPECIAL) : fileMode(access)
  try {
    if (about.gid !== access.group) await chown(path, about.uid, access.group)
  } catch (error) {
    // Whoever set the group by hand, and did not make this user a member, gives it the new files too.
    if (!isNotChangeable(error)) throw error
  }
  try {
    if ((about.mode & 0o7777) !== wanted) await chmod(path, wanted)
  } catch (error) {
    if (!isNotChangeable(error)) throw error
  }
}

/** Makes a snapshot as open as the lake is now; it itself comes last, so one that was done is seen by its mode. */
export async function openSnapshotToReaders(directory: string, access: LakeAccess): Promise<void> {
  const { mode, gid } = await stat(directory)
  if ((mode & 0o777) === access.mode && gid === access.group) return
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    await openToReaders(join(entry.parentPath, entry.name), access)
  await openToReaders(directory, access)
}
