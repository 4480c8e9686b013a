import { readFile, rm } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { claimFile } from './access.ts'
import { writeNew } from './durable.ts'
import { EXIT, FatalError, getMessage, InterruptedError } from './errors.ts'

const POLL_MS = 250
const SQLITE_BUSY = 5
const SQLITE_FULL = 13
/** A process that only checks the lock takes it for an instant, and must not look like a holder. */
const BUSY_MS = 50

/** The holder of a company's lock, shown to a process that waits for it. */
export type LockHolder = {
  readonly pid: number
  readonly host: string
  readonly what: string
  readonly since: string
}

type Lock = { release(): Promise<void> }

/**
 * Takes the company's lock for this process (invariant I8). It is SQLite's lock on an empty database: a kernel
 * lock on the file, which ends with its process, so no stale lock can remain. Within one process SQLite itself
 * refuses a second lock.
 * @throws FatalError (held) naming the holder, if it is still held after `waitMs`.
 */
export async function takeLock(
  path: string,
  holder: LockHolder,
  options: {
    waitMs: number
    signal: AbortSignal
    onWait?: (holder: LockHolder | null) => void
    nowMs: () => number
  },
): Promise<Lock> {
  const deadlineMs = options.nowMs() + options.waitMs
  for (let reported = false; ; ) {
    const lock = await tryLock(path, holder)
    if (lock) return lock
    const current = await readHolder(path)
    if (options.nowMs() >= deadlineMs) throw new FatalError(heldMessage(current), EXIT.held)
    if (!reported) options.onWait?.(current)
    reported = true
    await sleep(POLL_MS, undefined, { signal: options.signal }).catch(() => {
      throw new InterruptedError()
    })
  }
}

async function tryLock(path: string, holder: LockHolder): Promise<Lock | null> {
  const db = openLockFile(path)
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    if (isBusy(error)) return null
    throw lockFailed(path, error)
  }
  const about = holderPath(path)
  // Only informs those who wait; the lock works without it.
  await writeNew(about, JSON.stringify(holder)).catch(() => {})
  return {
    async release() {
      await rm(about, { force: true })
      db.close()
    },
  }
}

function isBusy(error: unknown): boolean {
  return readCode(error) === SQLITE_BUSY
}

/** Returns SQLite's primary error code, without the extended bits. */
function readCode(error: unknown): number | null {
  const hasCode = error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
  return hasCode ? Number(error.errcode) & 0xff : null
}

function lockFailed(path: string, error: unknown): FatalError {
  if (readCode(error) === SQLITE_FULL) {
    return new FatalError(
      `The lock ${path} cannot be taken: the disk is full. Free some space (the folder mirror/ beside it is made again by itself), then run again.`,
    )
  }
  return new FatalError(
    `The lock ${path} cannot be taken: ${getMessage(error)}. Check the disk of DATA_DIR, and that this user can write to it.`,
  )
}

function openLockFile(path: string): DatabaseSync {
  claimFile(path, ['-journal'])
  try {
    return new DatabaseSync(path, { timeout: BUSY_MS })
  } catch (error) {
    throw new FatalError(
      `The lock ${path} cannot be opened: ${getMessage(error)}. Check that DATA_DIR is writable.`,
      EXIT.usage,
    )
  }
}

const UNKNOWN_HOLDER: LockHolder = { pid: 0, host: 'unknown', what: 'another process', since: '' }

/** Returns the current holder of the lock, or null. It may be taken a moment later. */
export async function lockHolder(path: string): Promise<LockHolder | null> {
  const db = openLockFile(path)
  try {
    db.exec('BEGIN EXCLUSIVE')
    return null
  } catch (error) {
    if (!isBusy(error)) throw lockFailed(path, error)
    return (await readHolder(path)) ?? UNKNOWN_HOLDER
  } finally {
    db.close()
  }
}

/** Returns the last known holder of the lock. */
export async function readHolder(path: string): Promise<LockHolder | null> {
  try {
    return JSON.parse(await readFile(holderPath(path), 'utf8')) as LockHolder
  } catch {
    return null
  }
}

function holderPath(path: string): string {
  return `${path}.holder.json`
}

/** Names a holder: what it does, and where. */
export function describeHolder(holder: Omit<LockHolder, 'since'> | null): string {
  return holder?.pid ? `${holder.what} (process ${holder.pid} on ${holder.host})` : 'another process'
}

function heldMessage(holder: LockHolder | null): string {
  const who = holder
    ? `${holder.what} (process ${holder.pid} on ${holder.host}, since ${holder.since})`
    : 'another process'
  return `The lock of this company is held by ${who}. Wait for it to end, or use --wait SECONDS.`
}
