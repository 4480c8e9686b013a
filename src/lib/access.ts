import { chmodSync, chownSync, closeSync, lstatSync, openSync, type Stats, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { EXIT, FatalError, findSystemCode } from './errors.ts'

/**
 * Access to DATA_DIR (invariant I11). Everything is private to its user except the lake, which `LAKE_READERS` opens.
 * Modes are set explicitly, so that privacy does not depend on the umask.
 */
export const PRIVATE_DIRECTORY = 0o700
export const PRIVATE_FILE = 0o600
/** Others can pass through it to the lake, but cannot list it. */
export const PASSED_DIRECTORY = 0o711
/** The most that `LAKE_READERS` can grant: no other user may change published files. */
export const LAKE_DIRECTORY = 0o755

export const PERMISSIONS = 0o777
/** Set-user, set-group and sticky bits, which we never change. */
export const SPECIAL = 0o7000

/** Another user's file, or a file system without modes. Neither ends a run. */
const CANNOT_CHANGE: readonly (string | undefined)[] = ['EPERM', 'EACCES', 'EROFS', 'ENOTSUP', 'ENOSYS']

/** Returns whether the error means that this user cannot change the mode or group of this file. */
export function isNotChangeable(error: unknown): boolean {
  return CANNOT_CHANGE.includes(findSystemCode(error))
}

/** Formats a mode in the notation of `chmod`. */
export function formatMode(mode: number): string {
  return (mode & PERMISSIONS).toString(8).padStart(4, '0')
}

/** Returns the bits of a mode that `allowed` does not have. */
export function findExcess(mode: number, allowed: number): number {
  return mode & PERMISSIONS & ~allowed
}

/** Returns whether a trusted user owns it: this user, root, or the owner of the directory, who could replace it anyway. */
export function isTrusted(path: string, { uid }: Pick<Stats, 'uid'>): boolean {
  return uid === process.geteuid?.() || uid === 0 || uid === statSync(dirname(path)).uid
}

/**
 * Sets the mode of a file or directory. Does not follow a link, because its target may be a place that others use.
 * @returns why this failed, as a sentence; null if the mode is now set or the path is gone.
 */
export function setMode(path: string, wanted: number): string | null {
  const mode = readMode(path)
  if (mode === null || (mode & PERMISSIONS) === wanted) return null
  const differs = `${path} has mode ${formatMode(mode)} instead of ${formatMode(wanted)} and`
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink())
    return `${differs} is a link, so its target was not changed. Run \`editais doctor\`.`
  try {
    chmodSync(path, wanted | (mode & SPECIAL))
    return null
  } catch (error) {
    // A run that ended in the meantime has removed it.
    if (findSystemCode(error) === 'ENOENT') return null
    if (!isNotChangeable(error)) throw error
    return `${differs} cannot be changed by this user (${findSystemCode(error)}). Run \`editais doctor\`.`
  }
}

/** Removes the permissions that `allowed` does not include, and adds none. Returns the same as `setMode`. */
export function restrict(path: string, allowed: number): string | null {
  return setMode(path, (readMode(path) ?? 0) & allowed)
}

function readMode(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.mode ?? null
}

/**
 * Sets the group of a directory.
 * @throws FatalError (usage) if this user cannot set it, or could not set it on the files in the directory.
 */
export function giveToGroup(path: string, group: number): void {
  const { uid, gid } = statSync(path)
  const isMember =
    process.geteuid?.() === 0 || process.getegid?.() === group || process.getgroups?.().includes(group)
  try {
    if (isMember && gid === group) return
    if (!isMember) throw Object.assign(new Error('no member'), { code: 'EPERM' })
    chownSync(path, uid, group)
  } catch (error) {
    if (!isNotChangeable(error)) throw error
    throw new FatalError(
      `LAKE_READERS: the group of ${path} cannot be set to ${group} (${findSystemCode(error)}). Make this user a member of that group, or name another one.`,
      EXIT.usage,
    )
  }
}

/** Creates a directory private to this user, if it does not exist. Its parent must exist. */
export async function makePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { mode: PRIVATE_DIRECTORY }).catch(error => {
    if (findSystemCode(error) !== 'EEXIST') throw error
  })
  refuseForeignLink(path)
  restrict(path, PRIVATE_DIRECTORY)
}

/** Throws FatalError (usage) if another user replaced a directory with a link. */
export function refuseForeignLink(path: string): void {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about?.isSymbolicLink() || isTrusted(path, about)) return
  throw new FatalError(
    `${path} is a link created by user ${about.uid}, so it is not followed. Remove it and run again.`,
    EXIT.usage,
  )
}

/**
 * Claims a file that a library opens by its path: creates it private to this user, or closes an existing one to others. If it
 * cannot be created, the code that opens it next reports why.
 * @param companions suffixes of files that the library opens beside it.
 * @throws FatalError (usage) for a link, a directory, or a file of another user; then nothing is opened or changed.
 */
export function claimFile(path: string, companions: readonly string[] = []): void {
  for (const one of [path, ...companions.map(ending => path + ending)]) refuseStrange(one)
  try {
    // Exclusive, so it follows no link, not even a dangling one.
    closeSync(openSync(path, 'wx', PRIVATE_FILE))
  } catch {}
  for (const one of [path, ...companions.map(ending => path + ending)]) restrictFile(one)
}

/** Restricts a file as `restrict` does. Skips a link, and a file with another hard link, which may be another file of ours. */
export function restrictFile(path: string, allowed = PRIVATE_FILE): string | null {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about?.isFile()) return null
  return sharesInode(about, allowed) ? hardLinkMessage(path) : restrict(path, allowed)
}

/**
 * Returns whether another hard link would grant access. If the file is already closed, it grants nothing. Some kernels let any
 * user create one.
 */
function sharesInode({ nlink, mode }: Stats, allowed: number): boolean {
  return nlink > 1 && findExcess(mode, allowed) !== 0
}

function hardLinkMessage(path: string): string {
  return `${path} has another hard link and others can open it, so it was left unchanged. Replace it with a copy: cp it, then mv the copy over it.`
}

/** Throws FatalError (usage) if the path exists and is not a file that may be ours. */
export function refuseStrange(path: string): void {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about) return
  const what = about.isSymbolicLink() ? 'a link' : 'not a file'
  if (!about.isFile()) throw new FatalError(`${path} is ${what}, so it is not opened. Remove it.`, EXIT.usage)
  if (sharesInode(about, PRIVATE_FILE)) throw new FatalError(hardLinkMessage(path), EXIT.usage)
  if (isTrusted(path, about)) return
  throw new FatalError(
    `${path} belongs to user ${about.uid}, so it is not opened. Remove it, or chown it to this user.`,
    EXIT.usage,
  )
}
