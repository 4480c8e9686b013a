import { lstatSync, type Stats, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { claimFile, refuseStrange } from '#src/lib/access.ts'
import { messageOf, systemCode } from '#src/lib/errors.ts'

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
  /** The value of `identityOf` as long as the path is this file. */
  readonly identity: string
}

/** Opens the file for writing; creates it if necessary. */
export function openToWrite(path: string, waitMs: number): KeyFile {
  claimFile(path, COMPANIONS)
  const db = new DatabaseSync(path, { timeout: waitMs })
  try {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${TABLE}`)
    addColumns(db)
    return { db, frozenBy: null, identity: identityOf(path, false) }
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
    const about = { frozenBy: null, identity: identityOf(path, false) }
    return withTable(new DatabaseSync(urlOf(path, 'mode=rw'), { timeout: waitMs }), about)
  } catch (error) {
    // An immutable connection ignores the write-ahead log, so the log must be empty.
    const isWhole = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
    if (!isWhole || !UNWRITABLE.has(codeOf(error))) throw error
    const about = { frozenBy: error, identity: identityOf(path, true) }
    return withTable(new DatabaseSync(urlOf(path, 'immutable=1'), { readOnly: true }), about)
  }
}

/** Changes if another file replaces this one; for a frozen file, also if its bytes change. */
export function identityOf(path: string, isFrozen: boolean): string {
  const about = statSync(path, { throwIfNoEntry: false })
  if (!about) return 'missing'
  const identity = `${about.dev} ${about.ino}`
  if (!isFrozen) return identity
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false })
  return [identity, versionOf(about), log?.size ? versionOf(log) : 'whole'].join(' ')
}

/** Returns why a key file or its directory cannot be read or written, as the end of a sentence. */
export function reasonOf(error: unknown): string {
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
  return reasons[codeOf(error) ?? systemCode(error) ?? ''] ?? messageOf(error)
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

function urlOf(path: string, query: string): URL {
  const url = pathToFileURL(path)
  url.search = query
  return url
}

function versionOf({ size, mtimeMs }: Stats): string {
  return `${size} ${mtimeMs}`
}

/** Returns SQLite's primary result code; null for other errors. */
function codeOf(error: unknown): number | null {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : null
}
