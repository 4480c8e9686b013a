import { constants, createWriteStream, linkSync, rmSync, type WriteStream } from 'node:fs'
import { copyFile, type FileHandle, mkdtemp, open, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { PRIVATE_FILE } from './access.ts'
import { EXIT, FatalError, getMessage } from './errors.ts'

/**
 * Every step that changes what a later run finds on disk, in the order of a run. A process may die or the power may
 * fail before and after each step: `test/system/crash/` and the simulation kill the process there.
 */
export const DURABLE_STEPS = [
  ...(['directories.sync', 'unsealed.remove', 'rebuilt.remove'] as const),
  ...(['segment.sync', 'segment.rename', 'segment.directory'] as const),
  ...(['applied.commit', 'rows.sync', 'rows.directory', 'warehouse.checkpoint', 'rows.remove'] as const),
  ...(['rows.rename', 'rebuilt.rename', 'rebuilt.directory'] as const),
  ...(['expired.unlist', 'expired.remove', 'unfinished.remove'] as const),
  ...(['parquet.sync', 'parquet.rename', 'parquet.link', 'parquet.remove', 'parquet.directory'] as const),
  ...(['catalog.sync', 'snapshot.directory', 'manifest.sync', 'manifest.rename'] as const),
  ...(['manifest.directory', 'snapshots.directory'] as const),
  ...(['latest.link', 'latest.rename', 'latest.directory'] as const),
  ...(['state.rename', 'index.rename', 'temporary.remove'] as const),
] as const

/** Steps of `rebuild --salvage` only; it seals the replacement of a damaged segment like any other segment. */
export const SALVAGE_STEPS = ['damaged.link', 'damaged.directory'] as const

/** Steps of a look of the daemon, which is no run. */
const LOOK_STEPS = ['look.rename'] as const

/** Steps of a publish to the object store, which follows a run. */
const REMOTE_STEPS = ['remote.sync', 'remote.rename', 'remote.directory'] as const

/** Steps that restore a disk from the shared log. */
const RESTORE_STEPS = [
  ...(['restored.rename', 'restored.directory', 'base.rename', 'base.remove', 'base.directory'] as const),
] as const

type Steps = typeof DURABLE_STEPS | typeof SALVAGE_STEPS | typeof LOOK_STEPS | typeof RESTORE_STEPS
export type DurableStep = (Steps | typeof REMOTE_STEPS)[number]

/** The effect of a step on the disk. */
export type Operation =
  | { readonly kind: 'sync' | 'sync_directory' | 'remove'; readonly path: string }
  | { readonly kind: 'rename' | 'link' | 'symlink'; readonly from: string; readonly path: string }
  | { readonly kind: 'commit' }

/** Called before and after each step. If it throws, the step fails, as on a disk error. */
type Observer = (step: DurableStep, when: 'before' | 'after', operation: Operation) => void

let observer: Observer | null = null

/** Sets the observer of steps, for tests that count steps or kill the process at one; null removes it. */
export function observeSteps(by: Observer | null): void {
  observer = by
}

/** Performs a single step, if none of the functions below fits. */
export async function take<T>(step: DurableStep, operation: Operation, act: () => Promise<T>): Promise<T> {
  observer?.(step, 'before', operation)
  const result = await act()
  observer?.(step, 'after', operation)
  return result
}

/** Makes the bytes of a file durable. */
export async function syncFile(step: DurableStep, path: string): Promise<void> {
  await take(step, { kind: 'sync', path }, () => syncPath(path))
}

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(step: DurableStep, path: string): Promise<void> {
  await take(step, { kind: 'sync_directory', path }, () => syncPath(path))
}

/** Replaces a file with another, atomically. */
export async function move(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'rename', from, path }, () => rename(from, path))
}

/** Creates a hard link to a file. At once: a snapshot has hundreds, and handing one to another thread costs ten times as much. */
export async function linkFile(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'link', from, path }, async () => linkSync(from, path))
}

/** Creates a symbolic link. @param from the link's target, relative to the link. */
export async function linkTo(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'symlink', from, path }, () => symlink(from, path))
}

/** Removes a file, or a directory with its contents. A missing path is not an error. */
export async function remove(step: DurableStep, path: string): Promise<void> {
  await take(step, { kind: 'remove', path }, () => rm(path, { recursive: true, force: true }))
}

/** Makes a file, or the names in a directory, durable if no run depends on it. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Replaces a file with another, if no run depends on it. */
export async function movePath(from: string, path: string): Promise<void> {
  await rename(from, path)
}

/** Removes a file, if no run depends on it. A missing one is not an error. */
export async function dropPath(path: string): Promise<void> {
  await rm(path, { force: true })
}

/**
 * Opens a new file for writing, private to this user. An existing file of that name is replaced and never written to,
 * because it may be a link or a hard link to a file that is not ours.
 */
export async function openNew(path: string): Promise<FileHandle> {
  await rm(path, { force: true })
  // Exclusive, so a link created in this instant is not followed either.
  return await open(path, 'wx', PRIVATE_FILE)
}

/** Writes a new file, opened with `openNew`. */
export async function writeNew(path: string, content: string | Buffer): Promise<void> {
  const file = await openNew(path)
  try {
    await file.writeFile(content)
  } finally {
    await file.close()
  }
}

/** Returns a stream to a new file, under the same rules as `openNew`. */
export function openNewStream(path: string): WriteStream {
  rmSync(path, { force: true })
  return createWriteStream(path, { flags: 'wx', mode: PRIVATE_FILE })
}

/** Copies a file with its mode to a new name. Fails with EEXIST if the name is taken. */
export async function copyNew(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL)
}

/**
 * Writes a file that a user names or asks for: it appears, or replaces another one, only when it is complete. Readers of the old
 * file keep it. No run writes it, so it has no step.
 * @param write creates the file at the path that it gets.
 * @returns what `write` returned.
 * @param advice the end of the message if it cannot be written.
 * @throws FatalError (usage) if it cannot be written there; those of `write`.
 */
export async function writeBeside<T>(
  path: string,
  advice: string,
  write: (temporary: string) => Promise<T>,
): Promise<T> {
  let place: string | null = null
  try {
    place = await mkdtemp(join(dirname(path), `.${basename(path)}-`))
    const temporary = join(place, basename(path))
    const result = await write(temporary)
    await syncPath(temporary)
    await rename(temporary, path)
    await syncPath(dirname(path))
    return result
  } catch (error) {
    if (error instanceof FatalError) throw error
    throw new FatalError(`${path} cannot be written: ${getMessage(error)}. ${advice}`, EXIT.usage)
  } finally {
    if (place !== null) await rm(place, { recursive: true, force: true }).catch(() => {})
  }
}
