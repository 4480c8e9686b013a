import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { claimFile } from '#src/lib/access.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { explainKeyFileError, findKeyState, type KeyEntry } from '#src/server/key_file.ts'
import { KeyStore } from '#src/server/keys.ts'

/** Returns the file of the webhook subscriptions; it is made for the first one. */
export function subscriptionsPath(dataDir: string): string {
  return join(dataDir, 'webhooks.sqlite')
}

/** A receiver of a company's events. Times are ISO 8601 in UTC. */
export type Subscription = {
  /** `whk_` and eight hexadecimal digits. */
  readonly id: string
  readonly company: string
  /** The prefix of the API key that it belongs to: it ends with it. */
  readonly key: string
  readonly url: string
  /** Kinds of events; null for all. */
  readonly events: readonly string[] | null
  readonly createdAt: string
  /** Why nothing more is sent; null if it is. */
  readonly stoppedBecause: string | null
  /** The cursor in the company's feed: what follows was not queued yet. Null if nothing was. */
  readonly cursor: string | null
}

/** A message to a receiver. It is kept here until the receiver has it; the queue only says when to send it. */
export type Delivery = {
  readonly id: string
  readonly subscription: string
  /** The body as it is sent: JSON. */
  readonly body: string
}

/** A message that was given up. */
type DeadLetter = { readonly id: string; readonly at: string; readonly because: string }

/** The messages that have not reached a receiver. */
export type Backlog = {
  readonly id: string
  readonly company: string
  readonly queued: number
  /** Since when the oldest of the queued messages waits, in ms since 1970; null if none does. */
  readonly oldestMs: number | null
  readonly dead: number
  readonly isStopped: boolean
}

type DeliveryCounts = { readonly queued: number; readonly received: number; readonly dead: number }

type Row = {
  readonly id: string
  readonly company: string
  readonly key_prefix: string
  readonly url: string
  readonly events: string | null
  readonly created_at: string
  readonly stopped_because: string | null
  readonly cursor: string | null
}

const COMPANIONS = ['-wal', '-shm', '-journal']

const TABLES = `
  CREATE TABLE IF NOT EXISTS subscriptions (
    id TEXT PRIMARY KEY, company TEXT NOT NULL, key_prefix TEXT NOT NULL, url TEXT NOT NULL, events TEXT,
    secret TEXT NOT NULL, created_at TEXT NOT NULL, stopped_because TEXT, cursor TEXT) STRICT;
  CREATE TABLE IF NOT EXISTS deliveries (
    id TEXT PRIMARY KEY, subscription TEXT NOT NULL, state TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
    because TEXT, attempts INTEGER NOT NULL DEFAULT 0) STRICT;
  CREATE INDEX IF NOT EXISTS deliveries_by_state ON deliveries (subscription, state, attempts, at);`

/** Received messages are remembered for this long: longer than one is tried. Dead ones stay until they are replayed. */
const REMEMBERED_MS = 14 * 24 * 3_600_000

/**
 * The webhook subscriptions of all companies of a data directory, in one SQLite file that only its owner can read: it
 * holds the secrets that messages are signed with.
 */
export class Subscriptions {
  readonly #db: DatabaseSync

  private constructor(db: DatabaseSync) {
    this.#db = db
  }

  /**
   * Opens the file, or creates it.
   * @param waitMs how long another process may hold it.
   * @throws FatalError (usage) if it cannot be written.
   */
  static open(dataDir: string, waitMs: number): Subscriptions {
    const path = subscriptionsPath(dataDir)
    try {
      claimFile(path, COMPANIONS)
      const db = new DatabaseSync(path, { timeout: waitMs })
      try {
        db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${TABLES}`)
        return new Subscriptions(db)
      } catch (error) {
        db.close()
        throw error
      }
    } catch (error) {
      if (error instanceof FatalError) throw error
      throw new FatalError(
        `The webhooks in ${path} cannot be read or written: ${explainKeyFileError(error)}. Check the disk, the permissions of the file and its directory, and which processes have it open.`,
        EXIT.usage,
        { cause: error },
      )
    }
  }

  /** Opens the file; returns null if there is none, because no client subscribed. */
  static openIfThere(dataDir: string, waitMs: number): Subscriptions | null {
    return statSync(subscriptionsPath(dataDir), { throwIfNoEntry: false })
      ? Subscriptions.open(dataDir, waitMs)
      : null
  }

  /**
   * Adds a subscription.
   * @param cursor the place in the feed after which its events begin; null for the beginning of the log.
   * @returns the subscription, and the secret of its signatures, which cannot be shown again.
   */
  add(
    about: Pick<Subscription, 'company' | 'key' | 'url' | 'events' | 'cursor'>,
    now: Date,
  ): { subscription: Subscription; secret: string } {
    const id = `whk_${randomBytes(4).toString('hex')}`
    const secret = `whsec_${randomBytes(24).toString('base64')}`
    this.#db
      .prepare(
        'INSERT INTO subscriptions (id, company, key_prefix, url, events, secret, created_at, cursor) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      )
      .run(
        id,
        about.company,
        about.key,
        about.url,
        about.events?.join(',') ?? null,
        secret,
        now.toISOString(),
        about.cursor,
      )
    return { subscription: this.find(id) as Subscription, secret }
  }

  /** Lists the subscriptions, oldest first. */
  list(): Subscription[] {
    const rows = this.#db
      .prepare('SELECT * FROM subscriptions ORDER BY created_at, id')
      .all() as unknown as Row[]
    return rows.map(makeSubscription)
  }

  find(id: string): Subscription | null {
    const row = this.#db.prepare('SELECT * FROM subscriptions WHERE id = ?').get(id) as Row | undefined
    return row ? makeSubscription(row) : null
  }

  /** Signs its messages; null if there is no such subscription. */
  readSecret(id: string): string | null {
    const row = this.#db.prepare('SELECT secret FROM subscriptions WHERE id = ?').get(id)
    return row ? String(row.secret) : null
  }

  /** Removes a subscription with its messages. */
  remove(id: string): void {
    this.#write(() => {
      this.#db.prepare('DELETE FROM deliveries WHERE subscription = ?').run(id)
      this.#db.prepare('DELETE FROM subscriptions WHERE id = ?').run(id)
    })
  }

  /** Stops sending, for this reason. @returns false if it was stopped already. */
  stop(id: string, because: string): boolean {
    const { changes } = this.#db
      .prepare('UPDATE subscriptions SET stopped_because = ? WHERE id = ? AND stopped_because IS NULL')
      .run(because, id)
    return changes > 0
  }

  /** Resumes sending, with what was not sent yet. */
  resume(id: string): void {
    this.#db.prepare('UPDATE subscriptions SET stopped_because = NULL WHERE id = ?').run(id)
  }

  /**
   * Takes over a part of the feed: its messages, and the place after it, together.
   * @returns false if another process did so, or the subscription is gone; then nothing changes.
   */
  take(
    { id, cursor }: Pick<Subscription, 'id' | 'cursor'>,
    part: { readonly deliveries: readonly Delivery[]; readonly next: string },
    now: Date,
  ): boolean {
    return this.#write(() => {
      const { changes } = this.#db
        .prepare('UPDATE subscriptions SET cursor = ? WHERE id = ? AND cursor IS ?')
        .run(part.next, id, cursor)
      if (changes === 0) return false
      const insert = this.#db.prepare(
        "INSERT OR IGNORE INTO deliveries (id, subscription, state, at, body) VALUES (?, ?, 'queued', ?, ?)",
      )
      for (const delivery of part.deliveries) insert.run(delivery.id, id, now.getTime(), delivery.body)
      return true
    })
  }

  /**
   * Returns what is to be sent now or later, and since when: all messages that were tried already, which wait for their next
   * attempt, and the oldest of the others.
   * @param limit of the others: a receiver gets a few at a time, and each further job would only wait in Redis.
   */
  queued(subscription: string, limit: number): { readonly id: string; readonly at: number }[] {
    const of = "FROM deliveries WHERE subscription = $subscription AND state = 'queued'"
    const rows = this.#db
      .prepare(
        `SELECT id, at ${of} AND attempts > 0
        UNION ALL SELECT * FROM (SELECT id, at ${of} AND attempts = 0 ORDER BY at, rowid LIMIT $limit)`,
      )
      .all({ $subscription: subscription, $limit: limit })
    return rows as unknown as { id: string; at: number }[]
  }

  /** Counts a failed attempt; there will be another one. */
  noteFailed(id: string): void {
    this.#db.prepare('UPDATE deliveries SET attempts = attempts + 1 WHERE id = ?').run(id)
  }

  /** Returns a message that is to be sent; null if its receiver has it, or it was given up or removed. */
  delivery(id: string): Delivery | null {
    const row = this.#db
      .prepare("SELECT id, subscription, body FROM deliveries WHERE id = ? AND state = 'queued'")
      .get(id)
    return (row as unknown as Delivery | undefined) ?? null
  }

  /** Marks a message as received, durably and before its job ends, so that it is never sent again. */
  noteReceived(id: string, now: Date): void {
    this.#db
      .prepare("UPDATE deliveries SET state = 'received', at = ?, body = '', because = NULL WHERE id = ?")
      .run(now.getTime(), id)
  }

  noteDead(id: string, because: string, now: Date): void {
    this.#db
      .prepare("UPDATE deliveries SET state = 'dead', at = ?, because = ? WHERE id = ? AND state = 'queued'")
      .run(now.getTime(), because, id)
  }

  /** Returns the newest first. */
  deadLetters(subscription: string, limit: number): DeadLetter[] {
    const rows = this.#db
      .prepare(
        "SELECT id, at, because FROM deliveries WHERE subscription = ? AND state = 'dead' ORDER BY at DESC, id LIMIT ?",
      )
      .all(subscription, limit) as unknown as { id: string; at: number; because: string }[]
    return rows.map(({ at, ...row }) => ({ ...row, at: new Date(at).toISOString() }))
  }

  /** Queues the messages that were given up. @returns how many are to be sent again. */
  replay(subscription: string, now: Date): number {
    const { changes } = this.#db
      .prepare(
        "UPDATE deliveries SET state = 'queued', at = ?, attempts = 0 WHERE subscription = ? AND state = 'dead'",
      )
      .run(now.getTime(), subscription)
    return Number(changes)
  }

  /** Deletes the messages that were given up. @returns how many. */
  discard(subscription: string): number {
    const { changes } = this.#db
      .prepare("DELETE FROM deliveries WHERE subscription = ? AND state = 'dead'")
      .run(subscription)
    return Number(changes)
  }

  counts(subscription: string): DeliveryCounts {
    const rows = this.#db
      .prepare('SELECT state, count(*) AS n FROM deliveries WHERE subscription = ? GROUP BY state')
      .all(subscription) as unknown as { state: keyof DeliveryCounts; n: number }[]
    return { queued: 0, received: 0, dead: 0, ...Object.fromEntries(rows.map(({ state, n }) => [state, n])) }
  }

  /** Counts the messages that wait in all subscriptions. Received ones are not counted: there may be many. */
  backlogs(): Backlog[] {
    const count = this.#db.prepare(
      'SELECT count(*) AS n, min(at) AS oldest FROM deliveries WHERE subscription = ? AND state = ?',
    )
    return this.list().map(({ id, company, stoppedBecause }) => {
      const queued = count.get(id, 'queued') as { n: number; oldest: number | null }
      const dead = count.get(id, 'dead') as { n: number }
      const isStopped = stoppedBecause !== null
      return { id, company, isStopped, queued: queued.n, oldestMs: queued.oldest, dead: dead.n }
    })
  }

  /** Returns whether as many messages wait already. */
  isFull(subscription: string, limit: number): boolean {
    const row = this.#db
      .prepare(
        "SELECT count(*) AS n FROM (SELECT 1 FROM deliveries WHERE subscription = ? AND state = 'queued' LIMIT ?)",
      )
      .get(subscription, limit)
    return Number(row?.n) >= limit
  }

  /** Forgets what can no longer be tried again. */
  forgetOld(now: Date): void {
    this.#db
      .prepare("DELETE FROM deliveries WHERE state = 'received' AND at < ?")
      .run(now.getTime() - REMEMBERED_MS)
  }

  close(): void {
    this.#db.close()
  }

  /** Runs `work` in a transaction. */
  #write<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      this.#db.exec('COMMIT')
      return result
    } catch (error) {
      // If the disk is full, SQLite itself has already rolled back.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }
}

function makeSubscription(row: Row): Subscription {
  return {
    id: row.id,
    company: row.company,
    key: row.key_prefix,
    url: row.url,
    events: row.events === null ? null : row.events.split(','),
    createdAt: row.created_at,
    stoppedBecause: row.stopped_because,
    cursor: row.cursor,
  }
}

/** Returns a key, the one that replaced it, and so on; none if it is unknown. Null if there is no file of keys. */
export function readKeyLines(
  dataDir: string,
  waitMs: number,
): ((prefix: string) => readonly KeyEntry[]) | null {
  const keys = KeyStore.openIfThere(dataDir, waitMs)
  if (!keys) return null
  using _ = closing(keys)
  const entries = new Map(keys.list(null).map(entry => [entry.prefix, entry]))
  return prefix => {
    const line: KeyEntry[] = []
    for (
      let entry = entries.get(prefix);
      entry && !line.includes(entry);
      entry = entries.get(entry.replacedBy ?? '')
    )
      line.push(entry)
    return line
  }
}

/** Returns whether a subscription's key is valid, or was replaced by one that is. Null if there is no file of keys. */
export function readValidKeys(
  dataDir: string,
  now: Date,
  waitMs: number,
): ((subscription: Pick<Subscription, 'key'>) => boolean) | null {
  const lines = readKeyLines(dataDir, waitMs)
  return (
    lines && (({ key }) => lines(key).some(entry => ['valid', 'replaced'].includes(findKeyState(entry, now))))
  )
}
