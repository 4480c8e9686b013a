import { chmodSync, chownSync, closeSync, lstatSync, openSync, type Stats, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { EXIT, FatalError, systemCode } from './errors.ts'

/**
 * Who may open what below DATA_DIR (invariant I11). All is its user's alone, but for the lake, which `LAKE_MODE` and
 * `LAKE_GROUP` open. Modes are given explicitly: what is private does not depend on the umask.
 */
export const PRIVATE_DIRECTORY = 0o700
export const PRIVATE_FILE = 0o600
/** Others pass it on the way to the lake, but cannot list it. */
export const PASSED_DIRECTORY = 0o711
/** The most that `LAKE_MODE` gives: what is published is changed by nobody else. */
export const LAKE_DIRECTORY = 0o755

export const PERMISSIONS = 0o777
/** Set-user, set-group and sticky: not ours to change. */
export const SPECIAL = 0o7000

/** Another user's file, or a file system without modes: nothing that ends a run. */
const CANNOT_CHANGE: readonly (string | undefined)[] = ['EPERM', 'EACCES', 'EROFS', 'ENOTSUP', 'ENOSYS']

/** Whether the error of a change of mode or group says that this user cannot do it there. */
export function isNotChangeable(error: unknown): boolean {
  return CANNOT_CHANGE.includes(systemCode(error))
}

/** As `chmod` takes it. */
export function octal(mode: number): string {
  return (mode & PERMISSIONS).toString(8).padStart(4, '0')
}

/** The bits of a mode that `allowed` does not have. */
export function excess(mode: number, allowed: number): number {
  return mode & PERMISSIONS & ~allowed
}

/**
 * Whether somebody put it there who may: this user, root, or the owner of the directory, who could replace it anyway.
 */
export function isTrusted(path: string, { uid }: Pick<Stats, 'uid'>): boolean {
  return uid === process.geteuid?.() || uid === 0 || uid === statSync(dirname(path)).uid
}

/**
 * Gives a file or directory a mode. Not through a link: whoever made it may have led it to a place that others use.
 * @returns why that cannot be done, as a sentence; null where it is so now, or the path is gone.
 */
export function setMode(path: string, wanted: number): string | null {
  const mode = modeOf(path)
  if (mode === null || (mode & PERMISSIONS) === wanted) return null
  const differs = `${path} has mode ${octal(mode)} instead of ${octal(wanted)} and`
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink())
    return `${differs} is a link, so its target was not changed. Run \`npm run doctor\`.`
  try {
    chmodSync(path, wanted | (mode & SPECIAL))
    return null
  } catch (error) {
    // A run that ended meanwhile has removed it.
    if (systemCode(error) === 'ENOENT') return null
    if (!isNotChangeable(error)) throw error
    return `${differs} cannot be changed by this user (${systemCode(error)}). Run \`npm run doctor\`.`
  }
}

/** Takes from others what `allowed` does not give them, and gives nobody more. Returns as `setMode`. */
export function restrict(path: string, allowed: number): string | null {
  return setMode(path, (modeOf(path) ?? 0) & allowed)
}

function modeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.mode ?? null
}

/**
 * Gives a directory to a group.
 * @throws FatalError (usage) where this user cannot, or could not give it the files in there.
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
      `LAKE_GROUP: the group of ${path} cannot be set to ${group} (${systemCode(error)}). Make this user a member of that group, or unset LAKE_GROUP.`,
      EXIT.usage,
    )
  }
}

/** Makes a directory for this user alone, where it is not there yet; its parent is. */
export async function makePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { mode: PRIVATE_DIRECTORY }).catch(error => {
    if (systemCode(error) !== 'EEXIST') throw error
  })
  refuseForeignLink(path)
  restrict(path, PRIVATE_DIRECTORY)
}

/** @throws FatalError (usage) for a link that another user put in the place of a directory. */
export function refuseForeignLink(path: string): void {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about?.isSymbolicLink() || isTrusted(path, about)) return
  throw new FatalError(
    `${path} is a link created by user ${about.uid}, so it is not followed. Remove it and run again.`,
    EXIT.usage,
  )
}

/**
 * For a file that a library opens by its path: made for this user alone where it is missing, and closed to others
 * where it is there. What cannot be made is reported by whoever opens it next.
 * @param companions endings of files that the library opens beside it.
 * @throws FatalError (usage) for a link, a directory, or a file of another user: nothing is opened or changed then.
 */
export function claimFile(path: string, companions: readonly string[] = []): void {
  for (const one of [path, ...companions.map(ending => path + ending)]) refuseStrange(one)
  try {
    // Exclusive, so it follows no link, not even one that leads nowhere.
    closeSync(openSync(path, 'wx', PRIVATE_FILE))
  } catch {}
  for (const one of [path, ...companions.map(ending => path + ending)]) restrictFile(one)
}

/** As `restrict`, for a file; a link stays as it is, and one with a second name, which may be another file of ours. */
export function restrictFile(path: string, allowed = PRIVATE_FILE): string | null {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about?.isFile()) return null
  return sharesInode(about, allowed) ? secondName(path) : restrict(path, allowed)
}

/** Where it is closed already, a second name gives nobody anything; and some kernels let anybody make one. */
function sharesInode({ nlink, mode }: Stats, allowed: number): boolean {
  return nlink > 1 && excess(mode, allowed) !== 0
}

function secondName(path: string): string {
  return `${path} has another hard link and others can open it, so it was left unchanged. Replace it with a copy: cp it, then mv the copy over it.`
}

/** @throws FatalError (usage) unless it is a file that may be ours; a missing one may be. */
export function refuseStrange(path: string): void {
  const about = lstatSync(path, { throwIfNoEntry: false })
  if (!about) return
  const what = about.isSymbolicLink() ? 'a link' : 'not a file'
  if (!about.isFile()) throw new FatalError(`${path} is ${what}, so it is not opened. Remove it.`, EXIT.usage)
  if (sharesInode(about, PRIVATE_FILE)) throw new FatalError(secondName(path), EXIT.usage)
  if (isTrusted(path, about)) return
  throw new FatalError(
    `${path} belongs to user ${about.uid}, so it is not opened. Remove it, or chown it to this user.`,
    EXIT.usage,
  )
}
