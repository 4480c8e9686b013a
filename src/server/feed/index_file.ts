import { randomBytes } from 'node:crypto'
import { rmSync, statSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { claimFile } from '#src/lib/access.ts'
import type { FeedEvent, NoticeState } from './events.ts'

/**
 * The position of a client in the raw log of a company: after the `n`th event of line `seq` of `segment`. Segment 0 is the
 * beginning of any log.
 */
export type Position = { readonly segment: number; readonly seq: number; readonly n: number }

/**
 * The log up to a segment, and what shows whether it is still the same. The segment is the last one of the snapshot from which
 * a client was answered, because it also reads documents from there: if that part of the log is lost, it must begin anew, even
 * though the events that it has are still there.
 */
type LogUpTo = {
  readonly upTo: number
  /** Beginning of the SHA-256 of the log's first segment. */
  readonly log: Buffer
  /** Beginning of the hash of all segments up to that one. */
  readonly chain: Buffer
  /** When that snapshot was made, in ms since 1970. */
  readonly madeMs: number
}

export type Cursor = Position & LogUpTo

export const BEGINNING: Position = { segment: 0, seq: 0, n: 0 }

/** Increment this when positions get another meaning, or other bytes; earlier cursors are then gone. */
const CURSOR_VERSION = 2
const LOG_BYTES = 6
const CHAIN_BYTES = 7
const TIME_BYTES = 6
const CURSOR_BYTES = 1 + 4 + 4 + 1 + 4 + TIME_BYTES + LOG_BYTES + CHAIN_BYTES
const CURSOR_TEXT = /^[\w-]{44}$/
/** A cursor of version 1, which had no time. */
const EARLIER = /^AQ[\w-]{34}$/

/** Returns a text without meaning for clients: 44 characters that need no escape in a URL. */
export function writeFeedCursor(
  { segment, seq, n }: Position,
  { upTo, log, chain, madeMs }: LogUpTo,
): string {
  const bytes = Buffer.alloc(CURSOR_BYTES)
  bytes.writeUInt8(CURSOR_VERSION, 0)
  bytes.writeUInt32BE(segment, 1)
  bytes.writeUInt32BE(seq, 5)
  bytes.writeUInt8(n, 9)
  bytes.writeUInt32BE(upTo, 10)
  bytes.writeUIntBE(madeMs, 14, TIME_BYTES)
  log.copy(bytes, 20, 0, LOG_BYTES)
  chain.copy(bytes, 20 + LOG_BYTES, 0, CHAIN_BYTES)
  return bytes.toString('base64url')
}

/** Returns whether a text is a cursor of an earlier version. */
export function isEarlierCursor(text: string): boolean {
  return EARLIER.test(text)
}

/** Returns null for text that is no cursor of this version. */
export function readFeedCursor(text: string): Cursor | null {
  if (!CURSOR_TEXT.test(text)) return null
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.readUInt8(0) !== CURSOR_VERSION) return null
  return {
    segment: bytes.readUInt32BE(1),
    seq: bytes.readUInt32BE(5),
    n: bytes.readUInt8(9),
    upTo: bytes.readUInt32BE(10),
    madeMs: bytes.readUIntBE(14, TIME_BYTES),
    log: bytes.subarray(20, 20 + LOG_BYTES),
    chain: bytes.subarray(20 + LOG_BYTES),
  }
}

/** Returns whether the beginning of a hash, as a cursor has it, is that of this hash. */
export function beginsWith(hash: Uint8Array, beginning: Buffer): boolean {
  return beginning.equals(hash.subarray(0, beginning.length))
}

/** Increment this when events or states are made or stored differently: older files are then rebuilt. */
const FORMAT = 3
/** Suffixes of the files that SQLite creates beside it. */
const COMPANIONS = ['-wal', '-shm', '-journal']
/** How long a process waits for another that writes a part of it: as long as the part takes. */
const WRITE_WAIT_MS = 120_000
/** A lookup blocks all answers, and in write-ahead mode no reader waits for a writer. */
const READ_WAIT_MS = 50
/** SQLite's codes for a file that is damaged, or of another kind. */
const UNUSABLE: readonly unknown[] = [11, 26]

/** The notice of an event. */
const NOTICE = "event ->> '$.edital_id'"

const TABLES = `
  CREATE TABLE meta (generation TEXT NOT NULL) STRICT;
  CREATE TABLE segments (number INTEGER PRIMARY KEY, file TEXT NOT NULL, sha256 BLOB NOT NULL, chain BLOB NOT NULL) STRICT;
  CREATE TABLE events (segment INTEGER, seq INTEGER, n INTEGER, event TEXT NOT NULL,
    PRIMARY KEY (segment, seq, n)) STRICT, WITHOUT ROWID;
  CREATE INDEX events_of_notice ON events (${NOTICE}, segment);
  CREATE TABLE changes (segment INTEGER, seq INTEGER, n INTEGER, changes TEXT NOT NULL,
    PRIMARY KEY (segment, seq, n)) STRICT, WITHOUT ROWID;
  CREATE TABLE notices (edital_id TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT, WITHOUT ROWID;`

/** A segment whose events are in the file. */
export type IndexedSegment = {
  readonly number: number
  /** Changes if the file is written again. */
  readonly file: string
  readonly sha256: Uint8Array
  /** Hash of the segments up to this one. */
  readonly chain: Uint8Array
}

/** The index of a company's feed, for the one who writes it. Its readers see whole transactions. */
export class FeedIndex {
  readonly #db: DatabaseSync
  readonly #insertEvent: StatementSync
  readonly #insertChanges: StatementSync
  readonly #state: StatementSync
  readonly #setState: StatementSync

  private constructor(db: DatabaseSync) {
    this.#db = db
    this.#insertEvent = db.prepare('INSERT INTO events VALUES (?, ?, ?, ?)')
    this.#insertChanges = db.prepare('INSERT INTO changes VALUES (?, ?, ?, ?)')
    this.#state = db.prepare('SELECT state FROM notices WHERE edital_id = ?')
    this.#setState = db.prepare('INSERT OR REPLACE INTO notices VALUES (?, ?)')
  }

  /** Opens the file; one that is damaged, or of another version, is rebuilt. */
  static open(path: string): FeedIndex {
    try {
      return FeedIndex.#open(path)
    } catch (error) {
      if (!UNUSABLE.includes(Number((error as { errcode?: number }).errcode) & 0xff)) throw error
      for (const ending of ['', ...COMPANIONS]) rmSync(path + ending, { force: true })
      return FeedIndex.#open(path)
    }
  }

  static #open(path: string): FeedIndex {
    claimFile(path, COMPANIONS)
    const db = new DatabaseSync(path, { timeout: WRITE_WAIT_MS })
    try {
      // Not FULL: what a power failure takes is made again from the log, the same.
      db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE')
      const version = db.prepare('PRAGMA user_version').get() as { user_version: number }
      if (version.user_version !== FORMAT) makeTables(db)
      db.exec('COMMIT')
      return new FeedIndex(db)
    } catch (error) {
      db.close()
      throw error
    }
  }

  get generation(): string {
    return readGeneration(this.#db)
  }

  get segments(): IndexedSegment[] {
    return this.#db.prepare('SELECT * FROM segments ORDER BY number').all() as unknown as IndexedSegment[]
  }

  get last(): IndexedSegment | null {
    const last = this.#db.prepare('SELECT * FROM segments ORDER BY number DESC LIMIT 1').get()
    return (last as unknown as IndexedSegment | undefined) ?? null
  }

  /** Runs `work` in a transaction, alone. */
  async write<T>(work: () => Promise<T>): Promise<T> {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = await work()
      this.#db.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  /** Forgets everything: the log is another one. Readers notice by the generation. */
  clear(): void {
    makeTables(this.#db)
  }

  addSegment({ number, file, sha256, chain }: IndexedSegment): void {
    this.#db.prepare('INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?)').run(number, file, sha256, chain)
  }

  addEvent({ segment, seq, n }: Position, about: { at: string; edital_id: string }, event: FeedEvent): void {
    const { changes, ...small } = event
    this.#insertEvent.run(segment, seq, n, JSON.stringify({ ...about, ...small }))
    if (changes && changes.length > 0) this.#insertChanges.run(segment, seq, n, JSON.stringify(changes))
  }

  readState(id: string): NoticeState | null {
    const row = this.#state.get(id) as { state: string } | undefined
    return row ? JSON.parse(row.state) : null
  }

  setState(id: string, state: NoticeState): void {
    this.#setState.run(id, JSON.stringify(state))
  }

  close(): void {
    this.#db.close()
  }
}

function makeTables(db: DatabaseSync): void {
  for (const table of ['meta', 'segments', 'events', 'changes', 'notices'])
    db.exec(`DROP TABLE IF EXISTS ${table}`)
  db.exec(TABLES)
  db.prepare('INSERT INTO meta VALUES (?)').run(randomBytes(8).toString('hex'))
  db.exec(`PRAGMA user_version = ${FORMAT}`)
}

function readGeneration(db: DatabaseSync): string {
  return (db.prepare('SELECT generation FROM meta').get() as { generation: string }).generation
}

/** Events as JSON texts, each with its cursor. */
export type FeedPage = {
  readonly events: readonly { readonly cursor: string; readonly kind: string; readonly json: string }[]
  /** The cursor to continue from. */
  readonly next: string
  readonly hasMore: boolean
}

export type PageRequest = {
  /** Up to this segment. */
  readonly upTo: number
  /** When the snapshot was made that has it, in ms since 1970. */
  readonly madeMs: number
  readonly limit: number
  readonly withValues: boolean
  /** An answer ends with the event that exceeds this. */
  readonly maxBytes: number
}

type Row = Position & { readonly event: string; readonly changes: string | null }
type Hashes = Pick<IndexedSegment, 'sha256' | 'chain'>

/** Reads the file for a server. Every method is one lookup that takes milliseconds. */
export class FeedReader {
  readonly #db: DatabaseSync
  readonly #generation: string
  readonly #events: Readonly<Record<'plain' | 'withValues', StatementSync>>
  readonly #segment: StatementSync
  /** Which file the path led to. */
  readonly #file: string

  /**
   * @param generation that the index had when it was made for the snapshot that is served.
   * @throws Error if the file cannot be opened.
   */
  constructor(path: string, generation: string) {
    this.#file = readInode(path)
    this.#generation = generation
    this.#db = new DatabaseSync(path, { readOnly: true, timeout: READ_WAIT_MS })
    const select = (changes: string, join: string) =>
      this.#db.prepare(
        `SELECT e.segment, e.seq, e.n, e.event, ${changes} AS changes FROM events e ${join}
         WHERE (e.segment, e.seq, e.n) > (?, ?, ?) AND e.segment <= ? ORDER BY e.segment, e.seq, e.n LIMIT ?`,
      )
    this.#events = {
      plain: select('NULL', ''),
      withValues: select('c.changes', 'LEFT JOIN changes c USING (segment, seq, n)'),
    }
    this.#segment = this.#db.prepare('SELECT sha256, chain FROM segments WHERE number = ?')
  }

  isAt(path: string, generation: string): boolean {
    return this.#generation === generation && this.#file === readInode(path)
  }

  /** Runs `read` on one state of the file; returns null if the index was rebuilt for another log. */
  read<T>(read: () => T): T | null {
    this.#db.exec('BEGIN')
    try {
      return readGeneration(this.#db) === this.#generation ? read() : null
    } finally {
      this.#db.exec('COMMIT')
    }
  }

  /** Returns null if the segment is not in the index. */
  readHashes(segment: number): Hashes | null {
    return (this.#segment.get(segment) as Hashes | undefined) ?? null
  }

  #logUpTo(segment: number, madeMs: number): LogUpTo {
    const log = this.readHashes(1)?.sha256
    const chain = this.readHashes(segment)?.chain
    if (!log || !chain) throw new Error(`the index does not reach segment ${segment}`)
    return { upTo: segment, log: Buffer.from(log), chain: Buffer.from(chain), madeMs }
  }

  /** Returns the last event up to a segment; or null. */
  lastUpTo(segment: number): Position | null {
    const last = this.#db
      .prepare(
        'SELECT segment, seq, n FROM events WHERE segment <= ? ORDER BY segment DESC, seq DESC, n DESC LIMIT 1',
      )
      .get(segment)
    return (last as unknown as Position | undefined) ?? null
  }

  /** Returns the events of a notice with the values that changed, as JSON texts, the newest first. */
  readHistory(id: string, { upTo, limit }: Pick<PageRequest, 'upTo' | 'limit'>): string[] {
    const rows = this.#db
      .prepare(
        `SELECT event, changes FROM events LEFT JOIN changes USING (segment, seq, n)
         WHERE ${NOTICE} = ? AND segment <= ? ORDER BY segment DESC, seq DESC, n DESC LIMIT ?`,
      )
      .all(id, upTo, limit)
    return rows.map(({ event, changes }) => withChanges(String(event), changes as string | null))
  }

  /** Returns the events after a position. Without events, `next` is the cursor that it came from. */
  page(after: Position | Cursor, { upTo, madeMs, limit, withValues, maxBytes }: PageRequest): FeedPage {
    // Another server may have answered from a later snapshot.
    const log = 'upTo' in after && after.upTo > upTo ? after : this.#logUpTo(upTo, madeMs)
    const statement = this.#events[withValues ? 'withValues' : 'plain']
    const events: FeedPage['events'][number][] = []
    let bytes = 0
    let next: Position = after
    let hasMore = false
    for (const row of statement.iterate(after.segment, after.seq, after.n, upTo, limit + 1)) {
      const { segment, seq, n, event, changes } = row as unknown as Row
      hasMore = events.length === limit || bytes >= maxBytes
      if (hasMore) break
      next = { segment, seq, n }
      const cursor = writeFeedCursor(next, log)
      const json = `{"cursor":"${cursor}",${withChanges(event, changes).slice(1)}`
      events.push({ cursor, kind: (JSON.parse(event) as { kind: string }).kind, json })
      bytes += json.length
    }
    const unmoved = events.length === 0 && 'upTo' in after ? after : log
    return { events, next: writeFeedCursor(next, unmoved), hasMore }
  }

  close(): void {
    this.#db.close()
  }
}

function readInode(path: string): string {
  const about = statSync(path, { throwIfNoEntry: false })
  return about ? `${about.dev} ${about.ino}` : 'missing'
}

/** Adds the changes to an event. @param changes as JSON; null if they are not known or not wanted. */
function withChanges(event: string, changes: string | null): string {
  return changes === null ? event : `${event.slice(0, -1)},"changes":${changes}}`
}
