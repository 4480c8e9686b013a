import { EXIT, FatalError } from '#src/lib/errors.ts'
import type { KeyEntry } from './key_entry.ts'
import { reasonOf } from './key_file.ts'
import { KeyStore, keyFilePath, noValidKey } from './keys.ts'
import { isPrefix, Revocations } from './revocations.ts'

type Revocation = {
  /** Null if the key file could not be read, so that it is unknown whether the key exists. */
  readonly entry: KeyEntry | null
  /** Why the key file does not have the revocation yet; null if it has it. */
  readonly problem: string | null
}

/**
 * Revokes a key from now on. The revocation is first written beside the key file, where servers look at each request
 * and no lock can delay it, then into the key file itself.
 * @throws FatalError (usage) if there is no such key; (failed) if neither can be written, so that the key still works.
 */
export function revokeKey(
  dataDir: string,
  prefix: string,
  { now, waitMs }: { now: Date; waitMs: number },
): Revocation {
  const path = keyFilePath(dataDir)
  if (!isPrefix(prefix)) throw noValidKey(prefix)
  const revocations = new Revocations(dataDir)
  const { keys, entry, problem: unread } = lookUp(dataDir, prefix, waitMs)
  try {
    if (unread === null && (!entry || (entry.revokedAt !== null && !revocations.has(prefix))))
      throw noValidKey(prefix)
    const unmarked = attempt(() => revocations.add(prefix))
    const unwritten = unread ?? attempt(() => keys?.revoke(prefix, now))
    if (unmarked === null || unwritten === null) return { entry, problem: unwritten }
    throw new FatalError(
      `${prefix} STILL WORKS: neither ${path} (${unwritten}) nor ${revocations.path} (${unmarked}) can be changed. If the key was leaked, stop the server. Free the disk, fix the permissions or end the process that locks the file, then revoke the key again.`,
      EXIT.failed,
    )
  } finally {
    keys?.close()
  }
}

type Found = {
  readonly keys: KeyStore | null
  readonly entry: KeyEntry | null
  readonly problem: string | null
}

function lookUp(dataDir: string, prefix: string, waitMs: number): Found {
  let keys: KeyStore | null = null
  try {
    keys = KeyStore.openIfThere(dataDir, waitMs)
    const entry = keys?.list(null).find(one => one.prefix === prefix) ?? null
    return { keys, entry, problem: null }
  } catch (error) {
    keys?.close()
    return { keys: null, entry: null, problem: whyOf(error) }
  }
}

/** Calls `act`. @returns why it failed; null if it did not. */
function attempt(act: () => void): string | null {
  try {
    act()
    return null
  } catch (error) {
    return whyOf(error)
  }
}

/** Returns only the reason, without the sentence that a FatalError puts around it. */
function whyOf(error: unknown): string {
  return error instanceof FatalError && error.cause !== undefined ? reasonOf(error.cause) : reasonOf(error)
}
