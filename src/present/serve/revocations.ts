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
import { systemCode } from '#src/platform/errors.ts'

const DIRECTORY = 'api_keys.revoked'

/** The shown beginning of a key. It names a file, so it must not leave the directory. */
const PREFIX = /^edk_[0-9a-f]{8}$/

/**
 * Revocations that are not in the file of the keys yet: one empty file per key, named by its prefix. Another process
 * cannot lock them, and an empty file fits on a full disk.
 */
export class Revocations {
  readonly #dataDir: string
  readonly path: string

  constructor(dataDir: string) {
    this.#dataDir = dataDir
    this.path = join(dataDir, DIRECTORY)
  }

  /**
   * Whether the key of this prefix waits here. It costs a microsecond or two, at each request.
   * @throws Error if nobody can say, so that a key is not accepted by mistake.
   */
  has(prefix: string): boolean {
    try {
      return lstatSync(`${this.path}/${prefix}`, { throwIfNoEntry: false }) !== undefined
    } catch (error) {
      // Something else has its name: then nothing waits in it, and `add` says so.
      if (systemCode(error) === 'ENOTDIR') return false
      throw error
    }
  }

  /** When each of them was revoked, by prefix. */
  all(): Map<string, Date> {
    const prefixes = namesIn(this.path).filter(name => PREFIX.test(name))
    return new Map(
      prefixes.flatMap(prefix => {
        const about = lstatSync(join(this.path, prefix), { throwIfNoEntry: false })
        return about ? [[prefix, about.mtime]] : []
      }),
    )
  }

  /** Durable when it returns, if the file system can do that. */
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

  /** Call it only once the file of the keys has the revocation, durably. One that stays does no harm. */
  remove(prefix: string): void {
    try {
      unlinkSync(join(this.path, prefix))
    } catch {}
  }

  /** Makes the directory, while the disk has room for it. */
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

  /** The server may run as another user than root, who revokes; without it, it could not look, and would refuse all. */
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

/** Whether text can be the prefix of a key. */
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

/** A name that is not durable yet counts all the same: some file systems cannot sync a directory. */
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
