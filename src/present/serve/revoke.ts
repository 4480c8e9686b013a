import { EXIT, FatalError } from '#src/platform/errors.ts'
import { reasonOf } from './key_file.ts'
import { type KeyEntry, KeyStore, keyFilePath, noValidKey } from './keys.ts'
import { isPrefix, Revocations } from './revocations.ts'

export type Revocation = {
  /** Null if the file of the keys could not be read, so that nobody knows whether there is such a key. */
  readonly entry: KeyEntry | null
  /** Why the file of the keys does not have it yet; null if it has. */
  readonly problem: string | null
}

/**
 * Has a key refused from now on. It is first put down beside the file of the keys, where servers look at each request
 * and nobody else can hold it up, then in the file itself.
 * @throws FatalError (usage) if there is no such key; (failed) if it could be put down nowhere and still works.
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
      `${prefix} STILL WORKS: ${path} cannot be changed (${unwritten}), nor can ${revocations.path} (${unmarked}). Stop the server if the key is in wrong hands; free the disk, fix the permissions or end the process that holds the file, then revoke the key again.`,
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

/** @returns why it failed; null if it did not. */
function attempt(act: () => void): string | null {
  try {
    act()
    return null
  } catch (error) {
    return whyOf(error)
  }
}

/** The reason alone, of an error that is a sentence around it as well. */
function whyOf(error: unknown): string {
  return error instanceof FatalError && error.cause !== undefined ? reasonOf(error.cause) : reasonOf(error)
}
