import { constants, createWriteStream, rmSync, type WriteStream } from 'node:fs'
import { copyFile, type FileHandle, link, open, rename, rm, symlink } from 'node:fs/promises'
import { PRIVATE_FILE } from './access.ts'

/**
 * Every step that changes what a later run finds on the disk, in the order of a run. A process may die, or the
 * power fail, before and after each of them: `test/crash/` kills it there, and so does the simulation.
 */
export const DURABLE_STEPS = [
  ...(['directories.sync', 'unsealed.remove', 'rebuilt.remove'] as const),
  ...(['segment.sync', 'segment.rename', 'segment.directory'] as const),
  ...(['applied.commit', 'warehouse.checkpoint', 'rebuilt.rename', 'rebuilt.directory'] as const),
  ...(['expired.unlist', 'expired.remove', 'unfinished.remove'] as const),
  ...(['parquet.sync', 'parquet.rename', 'parquet.link', 'parquet.remove', 'parquet.directory'] as const),
  ...(['catalog.sync', 'snapshot.directory', 'manifest.sync', 'manifest.rename'] as const),
  ...(['manifest.directory', 'snapshots.directory'] as const),
  ...(['latest.link', 'latest.rename', 'latest.directory', 'state.rename', 'temporary.remove'] as const),
] as const

/** Those of `rebuild --salvage`, which no run takes; it seals what stands in a damaged segment's place as any. */
export const SALVAGE_STEPS = ['damaged.link', 'damaged.directory'] as const

export type DurableStep = (typeof DURABLE_STEPS | typeof SALVAGE_STEPS)[number]

/** What a step does to the disk. */
export type Operation =
  | { readonly kind: 'sync' | 'sync_directory' | 'remove'; readonly path: string }
  | { readonly kind: 'rename' | 'link' | 'symlink'; readonly from: string; readonly path: string }
  | { readonly kind: 'commit' }

/** Is told before and after each step. What it throws fails the step, as a disk does. */
export type Observer = (step: DurableStep, when: 'before' | 'after', operation: Operation) => void

let observer: Observer | null = null

/** For tests, which count the steps, or end the process there; null ends it. */
export function observeSteps(by: Observer | null): void {
  observer = by
}

/** Takes a step by itself, where none of the functions below fits. */
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

/** Puts a file in the place of another, at once. */
export async function move(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'rename', from, path }, () => rename(from, path))
}

/** Gives a file a second name. */
export async function linkFile(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'link', from, path }, () => link(from, path))
}

/** @param from what the link says, relative to where it is. */
export async function linkTo(step: DurableStep, from: string, path: string): Promise<void> {
  await take(step, { kind: 'symlink', from, path }, () => symlink(from, path))
}

/** Removes a file or a directory with all that is in it; nothing there is well too. */
export async function remove(step: DurableStep, path: string): Promise<void> {
  await take(step, { kind: 'remove', path }, () => rm(path, { recursive: true, force: true }))
}

/** Makes a file, or the names in a directory, durable where no run builds on it. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/**
 * Opens a new file to write it, for this user alone. What has that name is replaced and never written to: it may be a
 * link, or another name of a file that is not ours.
 */
export async function openNew(path: string): Promise<FileHandle> {
  await rm(path, { force: true })
  // Exclusive, so what somebody puts there in this instant is not followed either.
  return await open(path, 'wx', PRIVATE_FILE)
}

/** Writes a new file, as `openNew` opens it. */
export async function writeNew(path: string, content: string | Buffer): Promise<void> {
  const file = await openNew(path)
  try {
    await file.writeFile(content)
  } finally {
    await file.close()
  }
}

/** A new file to write bit by bit, as `openNew` opens it. */
export function newStream(path: string): WriteStream {
  rmSync(path, { force: true })
  return createWriteStream(path, { flags: 'wx', mode: PRIVATE_FILE })
}

/** Copies a file, with its mode, to a name that nothing has: the error is EEXIST otherwise. */
export async function copyNew(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL)
}
