import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { claimFile } from '#src/access.ts'
import { EXIT, FatalError, messageOf } from '#src/errors.ts'

/** All that a key is shown of after it was created. */
export type KeyEntry = {
  readonly prefix: string
  readonly company: string
  readonly description: string
  readonly createdAt: string
  readonly lastUsedAt: string | null
  readonly revokedAt: string | null
}

/** What every key begins with (contract section 5.1). */
const KEY_PREFIX = 'edk_'

const FILE = 'api_keys.sqlite'

const SCHEMA = `
  PRAGMA journal_mode = WAL;
  CREATE TABLE IF NOT EXISTS api_keys (
    hash BLOB PRIMARY KEY, prefix TEXT NOT NULL UNIQUE, company TEXT NOT NULL, description TEXT NOT NULL,
    created_at TEXT NOT NULL, last_used_at TEXT, revoked_at TEXT) STRICT`

/**
 * The API keys of all companies of a data directory, in one SQLite file. Of a key it holds a hash, and its first
 * characters to tell it by. Each look is one at the file, so what another process revokes is revoked.
 */
export class KeyStore {
  readonly #db: DatabaseSync
  readonly #byHash: StatementSync
  readonly #path: string
  readonly #file: number

  private constructor(db: DatabaseSync, path: string) {
    this.#db = db
    this.#path = path
    this.#file = fileNumber(path)
    this.#byHash = db.prepare(
      'SELECT hash, prefix, company FROM api_keys WHERE hash = ? AND revoked_at IS NULL',
    )
  }

  /**
   * @param dataDir is there.
   * @param waitMs how long another process may hold the file; one that answers requests must not wait.
   * @throws FatalError (usage) where the file cannot be opened or made.
   */
  static open(dataDir: string, waitMs: number): KeyStore {
    const path = join(dataDir, FILE)
    claimFile(path, ['-wal', '-shm', '-journal'])
    try {
      const db = new DatabaseSync(path, { timeout: waitMs })
      try {
        db.exec(SCHEMA)
        return new KeyStore(db, path)
      } catch (error) {
        db.close()
        throw error
      }
    } catch (error) {
      throw new FatalError(
        `The API keys in ${path} cannot be opened: ${messageOf(error)}. Check that this user may write it and its directory, and that nothing else holds it.`,
        EXIT.usage,
      )
    }
  }

  /** The keys, where somebody made one; null elsewhere. Throws as `open`. */
  static openIfThere(dataDir: string, waitMs: number): KeyStore | null {
    return existsSync(join(dataDir, FILE)) ? KeyStore.open(dataDir, waitMs) : null
  }

  /** Whether the file that is open is not the one of that name any more, as after a restore. */
  get isReplaced(): boolean {
    return fileNumber(this.#path) !== this.#file
  }

  /** @returns the key; nobody can show it again. */
  create(company: string, description: string, now: Date): string {
    // 8 characters to tell it by, 256 bits that nobody guesses.
    const prefix = `${KEY_PREFIX}${randomBytes(4).toString('hex')}`
    const key = `${prefix}_${randomBytes(32).toString('hex')}`
    this.#db
      .prepare('INSERT INTO api_keys (hash, prefix, company, description, created_at) VALUES (?, ?, ?, ?, ?)')
      .run(hashOf(key), prefix, company, description, now.toISOString())
    return key
  }

  /** The company that a key is for, and its prefix; null for one that is unknown or revoked. */
  find(key: string): { company: string; prefix: string } | null {
    const hash = hashOf(key)
    const row = this.#byHash.get(hash) as { hash: Uint8Array; prefix: string; company: string } | undefined
    // By the hash of what was presented: how long a look takes tells nothing of any key.
    return row && timingSafeEqual(row.hash, hash) ? { company: row.company, prefix: row.prefix } : null
  }

  /** Newest last. */
  list(company: string | null): KeyEntry[] {
    const rows = this.#db
      .prepare(
        `SELECT prefix, company, description, created_at AS createdAt, last_used_at AS lastUsedAt, revoked_at AS revokedAt
         FROM api_keys WHERE ? IS NULL OR company = ? ORDER BY created_at, prefix`,
      )
      .all(company, company)
    return rows as unknown as KeyEntry[]
  }

  /** @returns what it was; null where no valid key has this prefix. */
  revoke(prefix: string, now: Date): KeyEntry | null {
    const { changes } = this.#db
      .prepare('UPDATE api_keys SET revoked_at = ? WHERE prefix = ? AND revoked_at IS NULL')
      .run(now.toISOString(), prefix)
    if (changes === 0) return null
    return this.list(null).find(entry => entry.prefix === prefix) ?? null
  }

  /** Companies with a key that is valid. */
  companies(): string[] {
    const rows = this.#db.prepare('SELECT DISTINCT company FROM api_keys WHERE revoked_at IS NULL').all()
    return rows.map(({ company }) => String(company))
  }

  /** All of them or none. */
  noteUse(uses: ReadonlyMap<string, Date>): void {
    // What is lost of it when the power fails is no loss; and a server does not wait for a disk.
    this.#db.exec('PRAGMA synchronous = OFF; BEGIN IMMEDIATE')
    try {
      const statement = this.#db.prepare('UPDATE api_keys SET last_used_at = ? WHERE prefix = ?')
      for (const [prefix, at] of uses) statement.run(at.toISOString(), prefix)
      this.#db.exec('COMMIT')
    } catch (error) {
      this.#db.exec('ROLLBACK')
      throw error
    }
  }

  close(): void {
    this.#db.close()
  }
}

/** 0 where it is gone. */
function fileNumber(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? 0
}

/** A key is as random as a hash is long, so a slow one would protect nothing more. */
function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
