import { lstatSync, type Stats, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { claimFile, refuseStrange } from '#src/lib/access.ts'
import { findSystemCode, getMessage } from '#src/lib/errors.ts'

/**
 * The scopes of a key. `read` searches, exports and reads history below `/api/v1/mirror`; `feed` follows changes; `sql` asks the
 * company's catalog in SQL; `admin` manages what belongs to other keys of the company. A key with any of these may read the API of
 * the contract. `watch` sees the worker's reports, queues and status; `operate` does, too, and also starts and changes runs.
 * `calendar` reads sessions and last days as a calendar, and nothing else: such a key stands in an address, which many programs see.
 */
export const SCOPES = ['read', 'feed', 'sql', 'admin', 'watch', 'operate', 'calendar'] as const
export type Scope = (typeof SCOPES)[number]

/** Scopes of keys that were created without a choice, and before there was one. */
export const DEFAULT_SCOPES: readonly Scope[] = ['read', 'feed']

/**
 * Before the scopes of a code that signs one person in, once: `link:read+feed`. It becomes a key with these, and opens nothing itself,
 * because no version knows a scope of this name.
 */
export const LINK = 'link:'

/**
 * Reads the scopes of a key.
 * @param stored as a key file has them, separated by commas; null for the default. Unknown ones are ignored.
 */
export function parseScopes(stored: string | null): readonly Scope[] {
  if (stored === null) return DEFAULT_SCOPES
  const names = stored.split(',')
  return SCOPES.filter(scope => names.includes(scope))
}

/** Returns whether a scope is for the worker itself, not for the notices of a company. */
export function isOfOperators(scope: Scope): boolean {
  return scope === 'watch' || scope === 'operate'
}

/** The company of a key for all companies, which has only scopes of operators. */
export const ALL_COMPANIES = '*'

/** Everything about a key that can be shown after its creation. Times are ISO 8601 in UTC. */
export type KeyEntry = {
  readonly prefix: string
  readonly company: string
  readonly description: string
  readonly createdAt: string
  readonly lastUsedAt: string | null
  /** It is refused from this time on; null for never. */
  readonly expiresAt: string | null
  readonly revokedAt: string | null
  /** The prefix of the key that replaced it. */
  readonly replacedBy: string | null
  readonly scopes: readonly Scope[]
  /** Requests per second that it may send; null for the limit of all keys. */
  readonly maxRps: number | null
}

/** The rights of a key. */
export type Rights = Pick<KeyEntry, 'scopes' | 'maxRps'>

/** The holder of an accepted key. */
export type KeyHolder = Pick<KeyEntry, 'company' | 'prefix'> & Rights

/** A `replaced` key is still accepted until it expires. */
type KeyState = 'valid' | 'replaced' | 'expired' | 'revoked'

/** A key as the file has it. */
export type KeyRow = {
  readonly prefix: string
  readonly company: string
  readonly description: string
  readonly created_at: string
  readonly last_used_at: string | null
  readonly revoked_at: string | null
  readonly expires_at: string | null
  readonly replaced_by: string | null
  /** Undefined in a file of an earlier version. */
  readonly scopes?: string | null
  readonly max_rps?: number | null
}

export function findKeyState({ revokedAt, expiresAt, replacedBy }: KeyEntry, now: Date): KeyState {
  if (revokedAt !== null) return 'revoked'
  if (isOver(expiresAt, now)) return 'expired'
  return replacedBy === null ? 'valid' : 'replaced'
}

/** Returns the entry of a key. @param waiting time of a revocation that is not in the file yet. */
export function makeKeyEntry(row: KeyRow, waiting: Date | undefined): KeyEntry {
  const { prefix, company, description } = row
  return {
    prefix,
    company,
    description,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at ?? waiting?.toISOString() ?? null,
    replacedBy: row.replaced_by,
    ...readRights(row),
  }
}

export function readRights({ company, scopes = null, max_rps: maxRps = null }: KeyRow): Rights {
  const all = parseScopes(scopes)
  return { scopes: company === ALL_COMPANIES ? all.filter(isOfOperators) : all, maxRps }
}

/** Returns whether a key is for one company; others may be for all. */
export function isOfCompany({ scopes }: Pick<Rights, 'scopes'>): boolean {
  return scopes.some(scope => !isOfOperators(scope))
}

/** Returns whether a key may read the notices of its company. */
export function readsNotices({ scopes }: Pick<Rights, 'scopes'>): boolean {
  return scopes.some(scope => !isOfOperators(scope) && scope !== 'calendar')
}

/** Returns whether a key has expired; an invalid time counts as past. */
export function isOver(expiresAt: string | null, now: Date): boolean {
  return expiresAt !== null && !(now.getTime() < Date.parse(expiresAt))
}

export function readExpiryMs({ expiresAt }: KeyEntry): number {
  return expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt)
}

/** Returns when the successor of a key expires: that of a key of 90 days gets 90 days, too. */
export function computeSuccessorExpiry(old: KeyEntry, now: Date): Date | null {
  if (old.expiresAt === null) return null
  return new Date(now.getTime() + Date.parse(old.expiresAt) - Date.parse(old.createdAt))
}

const TABLE = `
  CREATE TABLE IF NOT EXISTS api_keys (
    hash BLOB PRIMARY KEY, prefix TEXT NOT NULL UNIQUE, company TEXT NOT NULL, description TEXT NOT NULL,
    created_at TEXT NOT NULL, last_used_at TEXT, revoked_at TEXT, expires_at TEXT, replaced_by TEXT,
    scopes TEXT, max_rps INTEGER) STRICT`

/** Columns that files of earlier versions lack. */
const ADDED_COLUMNS = { scopes: 'TEXT', max_rps: 'INTEGER' }

/** Suffixes of the files that SQLite creates beside it. */
const COMPANIONS = ['-wal', '-shm', '-journal']

/** SQLite's primary result codes. */
const SQLITE = {
  busy: 5,
  readOnly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADatabase: 26,
} as const

/** SQLite creates files beside the one that it reads. It fails with these if it cannot (read-only, or disk full). */
const UNWRITABLE: ReadonlySet<number | null> = new Set([
  SQLITE.readOnly,
  SQLITE.io,
  SQLITE.full,
  SQLITE.cannotOpen,
])

export type KeyFile = {
  readonly db: DatabaseSync
  /** Why it is read without locks, so that this connection sees no later changes; null if it is read with locks. */
  readonly frozenBy: unknown
  /** The value of `identifyKeyFile` as long as the path is this file. */
  readonly identity: string
}

/** Opens the file for writing; creates it if necessary. */
export function openToWrite(path: string, waitMs: number): KeyFile {
  claimFile(path, COMPANIONS)
  const db = new DatabaseSync(path, { timeout: waitMs })
  try {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${TABLE}`)
    addColumns(db)
    return { db, frozenBy: null, identity: identifyKeyFile(path, false) }
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * Opens the file without changing it, even if it is not writable.
 * @returns null if it has no table yet.
 */
export function openToRead(path: string, waitMs: number): KeyFile | null {
  for (const one of ['', ...COMPANIONS].map(ending => path + ending)) {
    // If it is a directory, SQLite itself reports that.
    if (!lstatSync(one, { throwIfNoEntry: false })?.isDirectory()) refuseStrange(one)
  }
  try {
    // Read before opening: if the file is replaced in between, the next check notices.
    const about = { frozenBy: null, identity: identifyKeyFile(path, false) }
    return withTable(new DatabaseSync(makeUrl(path, 'mode=rw'), { timeout: waitMs }), about)
  } catch (error) {
    // An immutable connection ignores the write-ahead log, so the log must be empty.
    const isWhole = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
    if (!isWhole || !UNWRITABLE.has(readCode(error))) throw error
    const about = { frozenBy: error, identity: identifyKeyFile(path, true) }
    return withTable(new DatabaseSync(makeUrl(path, 'immutable=1'), { readOnly: true }), about)
  }
}

/** Changes if another file replaces this one; for a frozen file, also if its bytes change. */
export function identifyKeyFile(path: string, isFrozen: boolean): string {
  const about = statSync(path, { throwIfNoEntry: false })
  if (!about) return 'missing'
  const identity = `${about.dev} ${about.ino}`
  if (!isFrozen) return identity
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })
  return [identity, describeVersion(about), log?.size ? describeVersion(log) : 'whole'].join(' ')
}

/** Returns why a key file or its directory cannot be read or written, as the end of a sentence. */
export function explainKeyFileError(error: unknown): string {
  const reasons: Readonly<Record<string, string>> = {
    [SQLITE.busy]: 'another process holds a lock on it',
    [SQLITE.readOnly]: 'it is read-only for this user',
    [SQLITE.io]: 'the disk is full or failing (disk I/O error)',
    [SQLITE.corrupt]: 'it is damaged',
    [SQLITE.full]: 'the disk is full',
    [SQLITE.cannotOpen]: 'this user cannot open it',
    [SQLITE.notADatabase]: 'it is not an SQLite database',
    ENOSPC: 'the disk is full',
    EDQUOT: 'the disk quota is used up',
    EROFS: 'the file system is read-only',
    EACCES: 'this user may not write it',
    EPERM: 'this user may not write it',
  }
  return reasons[readCode(error) ?? findSystemCode(error) ?? ''] ?? getMessage(error)
}

function withTable(db: DatabaseSync, about: Pick<KeyFile, 'frozenBy' | 'identity'>): KeyFile | null {
  try {
    db.exec('PRAGMA synchronous = FULL')
    if (hasTable(db)) return { db, ...about }
    db.close()
    return null
  } catch (error) {
    db.close()
    throw error
  }
}

/** Adds the columns that the file lacks, in one transaction, because two processes may open the file at once. */
function addColumns(db: DatabaseSync): void {
  const missing = () => {
    const columns = db.prepare("SELECT name FROM pragma_table_info('api_keys')").all()
    const names = columns.map(({ name }) => name)
    return Object.entries(ADDED_COLUMNS).filter(([name]) => !names.includes(name))
  }
  if (missing().length === 0) return
  db.exec('BEGIN IMMEDIATE')
  for (const [name, type] of missing()) db.exec(`ALTER TABLE api_keys ADD COLUMN ${name} ${type}`)
  db.exec('COMMIT')
}

function hasTable(db: DatabaseSync): boolean {
  return db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'api_keys'").get() !== undefined
}

function makeUrl(path: string, query: string): URL {
  const url = pathToFileURL(path)
  url.search = query
  return url
}

function describeVersion({ size, mtimeMs }: Stats): string {
  return `${size} ${mtimeMs}`
}

/** Returns SQLite's primary result code; null for other errors. */
function readCode(error: unknown): number | null {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : null
}
