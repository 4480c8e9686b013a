import { hash, randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchownSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  unlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { EXIT, FatalError, findSystemCode } from '#src/lib/errors.ts'
import {
  computeSuccessorExpiry,
  DEFAULT_SCOPES,
  explainKeyFileError,
  findKeyState,
  identifyKeyFile,
  isOfCompany,
  isOver,
  type KeyEntry,
  type KeyFile,
  type KeyHolder,
  type KeyRow,
  LINK,
  makeKeyEntry,
  openToRead,
  openToWrite,
  parseScopes,
  type Rights,
  readExpiryMs,
  readRights,
  type Scope,
} from './key_file.ts'

/** A key that replaces another. */
type Rotation = { readonly key: string; readonly entry: KeyEntry; readonly replaced: KeyEntry }

/** Lifetime of a key that a link made, and of the cookie that has it. */
export const SIGNED_IN_MS = 180 * 24 * 3_600_000
/** The beginning of every key (docs/contract.md#authentication). */
const KEY_PREFIX = 'edk_'
const KEY = /^(edk_[0-9a-f]{8})_[0-9a-f]{64}$/

const FILE = 'api_keys.sqlite'

/**
 * The API keys of all companies of a data directory, in one SQLite file. It holds a hash of each key, and its prefix
 * to identify it. Each lookup reads the file, so a key that another process revokes is refused at once.
 */
export class KeyStore {
  readonly path: string
  readonly #file: KeyFile
  readonly #db: DatabaseSync
  readonly #byHash: StatementSync
  readonly #revocations: Revocations

  private constructor(file: KeyFile, dataDir: string) {
    this.#file = file
    this.#db = file.db
    this.path = keyFilePath(dataDir)
    this.#revocations = new Revocations(dataDir)
    // All columns: SQLite prepares it again when another process adds one.
    this.#byHash = file.db.prepare('SELECT * FROM api_keys WHERE hash = ? AND revoked_at IS NULL')
  }

  /**
   * Opens the keys for writing; creates the file if there is none. Waiting revocations are entered first.
   * @param dataDir must exist.
   * @param waitMs how long another process may hold the file; a server must not wait.
   * @throws FatalError (usage) if the file cannot be written.
   */
  static open(dataDir: string, waitMs: number): KeyStore {
    const path = keyFilePath(dataDir)
    try {
      const keys = new KeyStore(openToWrite(path, waitMs), dataDir)
      try {
        keys.carryOver()
        return keys
      } catch (error) {
        keys.close()
        throw error
      }
    } catch (error) {
      if (error instanceof FatalError) throw error
      throw new FatalError(
        `The API keys in ${path} cannot be written: ${explainKeyFileError(error)}. Nothing was changed. Check the disk, the permissions of the file and its directory, and which processes have it open.`,
        EXIT.usage,
        { cause: error },
      )
    }
  }

  /**
   * Opens the keys for reading, and for what a server records. Does not require write permission.
   * @returns null if there are no keys yet.
   * @throws FatalError (usage) if the file cannot be read.
   */
  static openIfThere(dataDir: string, waitMs: number): KeyStore | null {
    const path = keyFilePath(dataDir)
    try {
      // Throws if this user may not read the directory: that does not mean that there are no keys.
      if (!statSync(path, { throwIfNoEntry: false })) return null
      const file = openToRead(path, waitMs)
      return file && new KeyStore(file, dataDir)
    } catch (error) {
      throw new FatalError(
        `The API keys in ${path} cannot be read: ${explainKeyFileError(error)}. Check the disk, the permissions of the file and its directory, and which processes have it open.`,
        EXIT.usage,
        { cause: error },
      )
    }
  }

  /** Returns whether the path now leads to another file than the open one, as after a restore. */
  get isReplaced(): boolean {
    return identifyKeyFile(this.path, this.isFrozen) !== this.#file.identity
  }

  /** Returns whether changes are not seen, because the file was not writable when it was opened. */
  get isFrozen(): boolean {
    return this.#file.frozenBy !== null
  }

  /** Creates a key. @param expiresAt null for never. @returns the key, which cannot be shown again. */
  create(
    company: string,
    description: string,
    now: Date,
    expiresAt: Date | null = null,
    rights: Rights = { scopes: DEFAULT_SCOPES, maxRps: null },
  ): string {
    return this.#write(() => this.#insert({ company, description, ...rights }, now, expiresAt).key)
  }

  /** Creates a code that signs one person in, once. @param expiresAt until when. */
  createLink(
    company: string,
    description: string,
    scopes: readonly Scope[],
    now: Date,
    expiresAt: Date,
  ): string {
    const rights = { scopes: [`${LINK}${scopes.join('+')}`], maxRps: null }
    return this.#write(() => this.#insert({ company, description, ...rights }, now, expiresAt).key)
  }

  /**
   * Makes a key of a code that signs one person in. It can be used once.
   * @returns the key; null if the code is unknown, used, revoked or expired.
   */
  redeem(code: string, now: Date): string | null {
    const prefix = KEY.exec(code)?.[1]
    if (prefix === undefined || this.#revocations.has(prefix)) return null
    return this.#write(() => {
      const row = this.#byHash.get(hashKey(code)) as KeyRow | undefined
      if (!row?.scopes?.startsWith(LINK) || isOver(row.expires_at, now)) return null
      const scopes = row.scopes.slice(LINK.length).replaceAll('+', ',')
      const { company, description } = row
      const expiresAt = new Date(now.getTime() + SIGNED_IN_MS)
      const rights = { scopes: parseScopes(scopes), maxRps: null }
      const { key, prefix: successor } = this.#insert({ company, description, ...rights }, now, expiresAt)
      this.#db
        .prepare('UPDATE api_keys SET revoked_at = ?, replaced_by = ? WHERE prefix = ?')
        .run(now.toISOString(), successor, prefix)
      return key
    })
  }

  /** Ends a key that a link made; nothing happens to others, which people may have elsewhere. */
  signOut(prefix: string, now: Date): void {
    this.#write(() =>
      this.#db
        .prepare(
          `UPDATE api_keys SET revoked_at = ? WHERE prefix = ? AND revoked_at IS NULL
             AND EXISTS (SELECT 1 FROM api_keys link WHERE link.replaced_by = api_keys.prefix AND link.scopes LIKE '${LINK}%')`,
        )
        .run(now.toISOString(), prefix),
    )
  }

  /**
   * Creates a key for the same company and system; the old one expires `overlapMs` later.
   * @param expiresAt of the new key; undefined for the same lifetime again.
   * @throws FatalError (usage) if no valid key has this prefix, or the key was already replaced.
   */
  rotate(
    prefix: string,
    { now, overlapMs, expiresAt }: { now: Date; overlapMs: number; expiresAt?: Date | undefined },
  ): Rotation {
    return this.#write(() => {
      const old = this.#entry(prefix)
      const state = old && findKeyState(old, now)
      const isKey = state === 'valid' || state === 'replaced'
      // A link has no scopes.
      if (!old || !isKey || old.scopes.length === 0) throw noValidKey(prefix)
      if (old.replacedBy !== null)
        throw new FatalError(
          `${prefix} was already replaced by ${old.replacedBy}. Rotate that key instead, or revoke ${prefix} to refuse it now.`,
          EXIT.usage,
        )
      const { key, prefix: successor } = this.#insert(old, now, expiresAt ?? computeSuccessorExpiry(old, now))
      const endsAt = new Date(Math.min(now.getTime() + overlapMs, readExpiryMs(old))).toISOString()
      // Without an overlap it was ended by hand, which is what `revoked` means.
      const ended = overlapMs === 0 ? now.toISOString() : null
      this.#db
        .prepare('UPDATE api_keys SET expires_at = ?, revoked_at = ?, replaced_by = ? WHERE prefix = ?')
        .run(endsAt, ended, successor, prefix)
      return { key, entry: this.#entry(successor) as KeyEntry, replaced: this.#entry(prefix) as KeyEntry }
    })
  }

  /**
   * Returns what a key stands for; null if it is unknown, revoked or expired.
   * @throws Error if the lookup fails.
   */
  find(key: string, now: Date): KeyHolder | null {
    const prefix = KEY.exec(key)?.[1]
    // Checked before the file: revocations move from here to the file, so that one of the two lookups finds them.
    if (prefix === undefined || this.#revocations.has(prefix)) return null
    // By hash, so that the duration of a lookup reveals nothing about any key.
    const row = this.#byHash.get(hashKey(key)) as KeyRow | undefined
    if (!row || isOver(row.expires_at, now)) return null
    return { company: row.company, prefix: row.prefix, ...readRights(row) }
  }

  /** Lists the keys, newest last. */
  list(company: string | null): KeyEntry[] {
    const waiting = this.#revocations.all()
    const rows = this.#db
      .prepare('SELECT * FROM api_keys WHERE ? IS NULL OR company = ? ORDER BY created_at, prefix')
      .all(company, company) as unknown as KeyRow[]
    return rows.map(row => makeKeyEntry(row, waiting.get(row.prefix)))
  }

  /**
   * Enters a revocation, and removes the waiting one of this key from the directory.
   * @throws Error if it could not be entered.
   */
  revoke(prefix: string, now: Date): void {
    const at = this.#revocations.all().get(prefix) ?? now
    this.#write(() => this.#enterRevocation(prefix, at))
    if (this.isReplaced) throw new Error('another file has just replaced it')
    this.#revocations.remove(prefix)
  }

  /**
   * Enters the revocations that wait in the directory, and prepares the directory for more. Revocations of keys that
   * this file does not have stay there: restoring a backup may bring those keys back.
   */
  carryOver(): void {
    const waiting = [...this.#revocations.all()].filter(([prefix]) => this.#row(prefix))
    if (waiting.length > 0) {
      this.#write(() => {
        for (const [prefix, at] of waiting) this.#enterRevocation(prefix, at)
      })
      if (!this.isReplaced) for (const [prefix] of waiting) this.#revocations.remove(prefix)
    }
    try {
      this.#revocations.prepare()
    } catch {
      // If a revocation needs the directory, it reports why it cannot be created.
    }
  }

  /** Companies with a key that may read their notices now. */
  companies(now: Date): string[] {
    const accepted = this.list(null).filter(
      entry => entry.revokedAt === null && !isOver(entry.expiresAt, now) && isOfCompany(entry),
    )
    return [...new Set(accepted.map(({ company }) => company))]
  }

  /** Records all uses or none. */
  noteUse(uses: ReadonlyMap<string, Date>): void {
    // A server does not wait for the disk, and losing a use in a power failure does no harm. Not OFF: that could lose
    // a revocation that another process made durable.
    this.#db.exec('PRAGMA synchronous = NORMAL')
    try {
      this.#write(() => {
        const statement = this.#db.prepare('UPDATE api_keys SET last_used_at = ? WHERE prefix = ?')
        for (const [prefix, at] of uses) statement.run(at.toISOString(), prefix)
      })
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL')
    }
  }

  close(): void {
    this.#db.close()
  }

  #insert(
    {
      company,
      description,
      scopes,
      maxRps,
    }: Pick<KeyEntry, 'company' | 'description' | 'maxRps'> & { readonly scopes: readonly string[] },
    now: Date,
    expiresAt: Date | null,
  ): { key: string; prefix: string } {
    // 8 characters to identify it, 256 bits that cannot be guessed.
    const prefix = `${KEY_PREFIX}${randomBytes(4).toString('hex')}`
    const key = `${prefix}_${randomBytes(32).toString('hex')}`
    this.#db
      .prepare(
        'INSERT INTO api_keys (hash, prefix, company, description, created_at, expires_at, scopes, max_rps) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      )
      .run(
        hashKey(key),
        prefix,
        company,
        description,
        now.toISOString(),
        expiresAt?.toISOString() ?? null,
        scopes.join(','),
        maxRps,
      )
    return { key, prefix }
  }

  #enterRevocation(prefix: string, at: Date): void {
    this.#db
      .prepare('UPDATE api_keys SET revoked_at = ? WHERE prefix = ? AND revoked_at IS NULL')
      .run(at.toISOString(), prefix)
  }

  #entry(prefix: string): KeyEntry | null {
    const row = this.#row(prefix)
    return row ? makeKeyEntry(row, undefined) : null
  }

  #row(prefix: string): KeyRow | undefined {
    return this.#db.prepare('SELECT * FROM api_keys WHERE prefix = ?').get(prefix) as KeyRow | undefined
  }

  /** Runs `work` in a transaction. */
  #write<T>(work: () => T): T {
    try {
      if (this.isFrozen) throw this.#file.frozenBy
      this.#db.exec('BEGIN IMMEDIATE')
      const result = work()
      this.#db.exec('COMMIT')
      return result
    } catch (error) {
      // If the disk is full, SQLite itself has already rolled back.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      if (error instanceof FatalError) throw error
      throw new FatalError(
        `${this.path} cannot be written: ${explainKeyFileError(error)}. Nothing was changed. Fix that, then try again.`,
        EXIT.failed,
        { cause: error },
      )
    }
  }
}

/** Returns whether text has the form of a key. */
export function isKey(text: string): boolean {
  return KEY.test(text)
}

/** Returns the prefix of a key that a person gives: the prefix, or the whole key, of which messages repeat no more. */
export function takePrefix(given: string): string {
  return given.split('_').slice(0, 2).join('_')
}

export function keyFilePath(dataDir: string): string {
  return join(dataDir, FILE)
}

export function noValidKey(prefix: string): FatalError {
  return new FatalError(
    `There is no valid key ${prefix}. \`editais keys list\` shows the keys and their states.`,
    EXIT.usage,
  )
}

/**
 * Returns the hash under which a key is stored: it is as random as the hash is long, so a slow one would not protect it better.
 */
function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

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
  // A link that was used is its key.
  if (entry?.scopes.length === 0 && entry.replacedBy !== null) {
    keys?.close()
    return revokeKey(dataDir, entry.replacedBy, { now, waitMs })
  }
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
    return { keys: null, entry: null, problem: explainWhy(error) }
  }
}

/** Calls `act`. @returns why it failed; null if it did not. */
function attempt(act: () => void): string | null {
  try {
    act()
    return null
  } catch (error) {
    return explainWhy(error)
  }
}

/** Returns only the reason, without the sentence that a FatalError puts around it. */
function explainWhy(error: unknown): string {
  return error instanceof FatalError && error.cause !== undefined
    ? explainKeyFileError(error.cause)
    : explainKeyFileError(error)
}

const DIRECTORY = 'api_keys.revoked'

/** The public prefix of a key. It is a file name, so it must not leave the directory. */
const PREFIX = /^edk_[0-9a-f]{8}$/

/**
 * Revocations that are not in the key file yet: one empty file per key, named by its prefix. Another process cannot
 * lock them, and an empty file fits on a full disk.
 */
class Revocations {
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
      if (findSystemCode(error) === 'ENOTDIR') return false
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
      if (findSystemCode(error) !== 'EEXIST') throw error
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
      if (findSystemCode(error) === 'EEXIST') return
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
function isPrefix(text: string): boolean {
  return PREFIX.test(text)
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(findSystemCode(error) ?? '')) return []
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
    if (!['EINVAL', 'ENOTSUP', 'EACCES', 'EPERM'].includes(findSystemCode(error) ?? '')) throw error
  }
}
