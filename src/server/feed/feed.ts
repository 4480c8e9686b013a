import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { makePrivateDirectory } from '#src/lib/access.ts'
import { carryOut, startChild } from '#src/lib/child.ts'
import { getMessage } from '#src/lib/errors.ts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import { Refusal } from '#src/server/contract/source.ts'
import {
  BEGINNING,
  beginsWith,
  type Cursor,
  type FeedPage,
  FeedReader,
  isEarlierCursor,
  type PageRequest,
  type Position,
  readFeedCursor,
} from './index_file.ts'
import type { IndexAnswer, Indexed, IndexOrder } from './indexer.ts'
import type { SharedSegments, VersionFiles } from './segments.ts'

/** How long a request waits for the index. A later one finds it further along. */
const READY_WITHIN_MS = 5000
const RETRY_AFTER_SECONDS = 2
/** After a failure, the next request that may try again. */
const AGAIN_AFTER_MS = 5000
const FAILED_RETRY_SECONDS = 30

/** The properties of the served snapshot that the feed needs: nothing after it is shown. */
export type FeedSnapshot = {
  readonly name: string
  /** When it was made, in ms since 1970. */
  readonly madeMs: number
  readonly appliedSegment: number
  readonly versions: VersionFiles
  /** Zone of times without an offset, and of those that people read: the company's SOURCE_TIMEZONE. */
  readonly timeZone: string
}

/** The log that a cursor belongs to is gone: it was salvaged, begun again, or is another company's. */
export class CursorGone extends Error {
  override readonly name = 'CursorGone'
}

type Options = {
  readonly root: string
  readonly shared: SharedSegments | null
  readonly log: Logger
  readonly bringUp: BringUp
}

/**
 * The changes of one company, in the order of its raw log, up to the snapshot that is served. The index is brought up to
 * date on request, so a feed without readers costs nothing.
 */
export class Feed {
  readonly #options: Options
  readonly #path: string
  readonly #stop = new AbortController()
  #reader: FeedReader | null = null
  /** The snapshot up to which `#reader` was brought. */
  #readyFor: string | null = null
  #underWay: Promise<void> | null = null
  #failed: { readonly problem: string; readonly atMs: number } | null = null

  /** @param options.root the company's directory. @param options.shared its log, if hosts share it. */
  constructor(options: Options) {
    this.#options = options
    this.#path = join(options.root, 'mirror', 'feed.sqlite')
  }

  /**
   * Resolves to the snapshot that is served, when the changes up to it can be read.
   * @throws Refusal (503) if that takes longer than a client should wait, or fails.
   */
  async ready<S extends FeedSnapshot>(current: () => S, withinMs = READY_WITHIN_MS): Promise<S> {
    const late = new AbortController()
    const deadline = sleep(withinMs, 'late' as const, { signal: late.signal, ref: false })
    deadline.catch(() => {})
    try {
      for (;;) {
        const snapshot = current()
        if (this.#readyFor === snapshot.name) return snapshot
        // A lake can be published before anything was received; then no log is there that a cursor could name.
        if (snapshot.appliedSegment === 0)
          throw new Refusal(
            503,
            'There are no changes of this company yet. Try again after its first run.',
            FAILED_RETRY_SECONDS,
          )
        this.#refuseFailed()
        this.#underWay ??= this.#bringUp(snapshot)
        if ((await Promise.race([this.#underWay, deadline])) === 'late')
          throw new Refusal(
            503,
            'The changes of this company are being prepared. Try again in a moment.',
            RETRY_AFTER_SECONDS,
          )
      }
    } finally {
      late.abort()
    }
  }

  /**
   * Returns where a client continues, from the cursor that it has; `latest` for what was published last, and null for the
   * beginning of the log.
   * @throws Refusal (400) for text that is no cursor, and (503) for one that this server has not reached.
   * @throws CursorGone if the log is another one.
   */
  findPosition(since: string | null, { appliedSegment, madeMs }: FeedSnapshot): Position | Cursor {
    if (since === null) return BEGINNING
    if (since === 'latest') return this.#read(reader => reader.lastUpTo(appliedSegment)) ?? BEGINNING
    if (isEarlierCursor(since)) throw new CursorGone('The cursor is of an earlier version of this server.')
    const cursor = readFeedCursor(since)
    if (!cursor)
      throw new Refusal(
        400,
        'since is neither a cursor of this API nor `latest`. Pass the `next` of an answer.',
        null,
        'invalid_parameter',
      )
    this.#read(reader => checkCursor(reader, cursor, madeMs))
    return cursor
  }

  /** Returns the events after a position that `findPosition` gave, up to a snapshot for which `ready` resolved. */
  page(
    after: Position | Cursor,
    { appliedSegment, madeMs }: FeedSnapshot,
    request: Omit<PageRequest, 'upTo' | 'madeMs'>,
  ): FeedPage {
    return this.#read(reader => reader.page(after, { ...request, upTo: appliedSegment, madeMs }))
  }

  /**
   * Returns what happened to a notice, up to a snapshot for which `ready` resolved: events as JSON texts, the newest first.
   * @throws CursorGone if the log was replaced meanwhile.
   */
  readHistory(id: string, { appliedSegment }: FeedSnapshot, limit: number): readonly string[] {
    return this.#read(reader => reader.readHistory(id, { upTo: appliedSegment, limit }))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#underWay?.catch(() => {})
    this.#reader?.close()
    this.#reader = null
    this.#readyFor = null
  }

  /** Brings the index up to the snapshot. Never throws: `#failed` has the reason. */
  async #bringUp({ name, appliedSegment, versions, timeZone }: FeedSnapshot): Promise<void> {
    const { root, shared, bringUp, log } = this.#options
    try {
      await makePrivateDirectory(dirname(this.#path))
      const source = { raw: join(root, 'raw'), shared, upTo: appliedSegment, versions, timeZone }
      const { generation } = await bringUp({ ...source, path: this.#path }, this.#stop.signal)
      if (this.#stop.signal.aborted) throw new Error('stopped')
      if (!this.#reader?.isAt(this.#path, generation)) {
        this.#reader?.close()
        this.#reader = null
        this.#reader = new FeedReader(this.#path, generation)
      }
      this.#readyFor = name
      this.#failed = null
    } catch (error) {
      const problem = getMessage(error).replace(/\.$/, '')
      if (problem !== this.#failed?.problem && !this.#stop.signal.aborted)
        log.error(`The changes cannot be served: ${problem}. The next request tries again.`)
      this.#failed = { problem, atMs: performance.now() }
    } finally {
      this.#underWay = null
    }
  }

  #refuseFailed(): void {
    if (this.#stop.signal.aborted) throw preparing()
    if (this.#failed === null || performance.now() - this.#failed.atMs > AGAIN_AFTER_MS) return
    throw new Refusal(
      503,
      'The changes of this company cannot be served at the moment. The server log has the reason.',
      FAILED_RETRY_SECONDS,
    )
  }

  /** Reads from the index. @throws Refusal (503) if it was rebuilt or removed meanwhile: the next request prepares it. */
  #read<T>(read: (reader: FeedReader) => T): T {
    const reader = this.#reader
    const result = reader?.read(() => ({ value: read(reader) }))
    if (result) return result.value
    this.#readyFor = null
    throw preparing()
  }
}

function preparing(): Refusal {
  return new Refusal(503, 'The changes of this company are being prepared. Try again.', RETRY_AFTER_SECONDS)
}

/** Throws Refusal unless the cursor can be continued in this log. @param madeMs when this server's snapshot was made. */
function checkCursor(reader: FeedReader, cursor: Cursor, madeMs: number): void {
  const own = reader.readHashes(cursor.upTo)
  if (own && beginsWith(own.chain, cursor.chain) && isOfLog(reader, cursor)) return
  // Another server that has the same log may be ahead of this one. If its snapshot is the older one, the log has lost its end since.
  if (!own && isOfLog(reader, cursor) && madeMs < cursor.madeMs)
    throw new Refusal(
      503,
      'The cursor is from a newer snapshot than this server has. Try again in a moment, or send all requests to one server.',
      FAILED_RETRY_SECONDS,
      'cursor_ahead',
    )
  throw new CursorGone(
    'The log that this cursor belongs to is gone: it was rewritten, or the cursor belongs to another company.',
  )
}

function isOfLog(reader: FeedReader, { log }: Cursor): boolean {
  const first = reader.readHashes(1)
  return first !== null && beginsWith(first.sha256, log)
}

const INDEX = join(import.meta.dirname, 'indexer.ts')

/** Variables of the environment that the object store's client reads: a role's credentials, and certificates. */
const FOR_STORES = /^(AWS_.+|SSL_CERT_.+|NODE_EXTRA_CA_CERTS)$/
/** Beside builders: they take a core while they work. */
const AT_ONCE = 2
/** A year's log takes minutes; what was done until then stays. */
const WITHIN_MS = 600_000

export type BringUp = (order: IndexOrder, signal: AbortSignal) => Promise<Indexed>

/**
 * Brings indexes of feeds up to date, each in a process that ends with it.
 * @returns a function that throws Error with the reason if that fails.
 */
export function createIndexers(): BringUp {
  const inTurn = createTurns(AT_ONCE)
  return async (order, signal) => {
    const answer = await inTurn(
      order.path,
      () => !signal.aborted,
      () => updateInProcess(order, signal),
    )
    if (answer === null) throw new Error('stopped')
    return answer
  }
}

async function updateInProcess(order: IndexOrder, signal: AbortSignal): Promise<Indexed> {
  const child = startChild(INDEX, order.shared ? { also: FOR_STORES } : {})
  try {
    const limits = { what: 'an indexer', withinMs: WITHIN_MS, signal }
    const answer = await carryOut<IndexAnswer>(child, order, limits).catch(error => ({
      error: `an indexer process cannot be started: ${getMessage(error)}`,
    }))
    if ('indexed' in answer && answer.indexed) return answer.indexed
    throw new Error(answer.error ?? 'an indexer process gave no answer')
  } finally {
    if (child.connected) child.disconnect()
  }
}
