import {
  closeSync,
  constants,
  fchownSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '#src/lib/errors.ts'

const DIRECTORY = 'api_keys.revoked'

/** The public prefix of a key. It is a file name, so it must not leave the directory. */
const PREFIX = /^edk_[0-9a-f]{8}$/

/**
 * Revocations that are not in the key file yet: one empty file per key, named by its prefix. Another process cannot
 * lock them, and an empty file fits on a full disk.
 */
export class Revocations {
  readonly #dataDir: string
  readonly path: string

  constructor(dataDir: string) {
    this.#dataDir = dataDir
    this.path = join(dataDir, DIRECTORY)
  }

  /**
   * Returns whether the key with this prefix has a waiting revocation. Costs a microsecond or two at each request.
   * @throws Error if that cannot be checked, so that a key is not accepted by mistake.
   */
  has(prefix: string): boolean {
    try {
      return lstatSync(`${this.path}/${prefix}`, { throwIfNoEntry: false }) !== undefined
    } catch (error) {
      // The path is not a directory: then no revocations wait in it, and `add` reports that.
      if (systemCode(error) === 'ENOTDIR') return false
      throw error
    }
  }

  /** Returns the time of each revocation, by prefix. */
  all(): Map<string, Date> {
    const prefixes = namesIn(this.path).filter(name => PREFIX.test(name))
    return new Map(
      prefixes.flatMap(prefix => {
        const about = lstatSync(join(this.path, prefix), { throwIfNoEntry: false })
        return about ? [[prefix, about.mtime]] : []
      }),
    )
  }

  /** Adds a revocation. It is durable when this returns, if the file system can do that. */
  add(prefix: string): void {
    if (!PREFIX.test(prefix)) throw new Error(`${prefix} is not the prefix of a key`)
    this.prepare()
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    try {
      closeSync(openSync(join(this.path, prefix), flags, 0o600))
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
    }
    syncDirectory(this.path)
  }

  /** Removes a revocation. Call this only once the key file has it, durably. A revocation that stays here does no harm. */
  remove(prefix: string): void {
    try {
      unlinkSync(join(this.path, prefix))
    } catch {}
  }

  /** Creates the directory, while the disk has room for it. */
  prepare(): void {
    const about = lstatSync(this.path, { throwIfNoEntry: false })
    if (about?.isDirectory()) return
    if (about) throw new Error(`${this.path} is not a directory`)
    try {
      mkdirSync(this.path, { mode: 0o700 })
    } catch (error) {
      // Another process was faster.
      if (systemCode(error) === 'EEXIST') return
      throw error
    }
    if (process.getuid?.() === 0) this.#giveToOwner()
    syncDirectory(this.#dataDir)
  }

  /**
   * Gives the directory to the owner of the data. If root revokes, the server may be another user: unable to read root's
   * directory, it would refuse all keys.
   */
  #giveToOwner(): void {
    const { uid, gid } = lstatSync(this.#dataDir)
    const directory = openSync(this.path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    try {
      fchownSync(directory, uid, gid)
    } finally {
      closeSync(directory)
    }
  }
}

/** Returns whether text can be the prefix of a key. */
export function isPrefix(text: string): boolean {
  return PREFIX.test(text)
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '')) return []
    throw error
  }
}

/** Ignores errors of file systems that cannot sync a directory: the revocation is effective before it is durable. */
function syncDirectory(path: string): void {
  try {
    const directory = openSync(path, constants.O_RDONLY)
    try {
      fsyncSync(directory)
    } finally {
      closeSync(directory)
    }
  } catch (error) {
    if (!['EINVAL', 'ENOTSUP', 'EACCES', 'EPERM'].includes(systemCode(error) ?? '')) throw error
  }
}
