import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LinkedList, Place } from './linked_list.ts'

/** An answer of which nothing was read for so long may make way for somebody else's. */
const STALLED_MS = 1000

/** What a connection has to know of an answer. */
export type Answer = ServerResponse & { readonly unreadBytes: number; readonly lastPieceMs: number }

/**
 * `silent` sent no request yet, `idle` was answered and may ask again; the request of a `waiting` one has not begun,
 * that of a `busy` one is being answered.
 */
type Phase = 'silent' | 'idle' | 'waiting' | 'busy'

/** Connections of one address, or all of them: in each phase those that have been in it longest come first. */
export type Group = Readonly<Record<Phase, LinkedList<Connection>>> & {
  /** Of answers that were not read yet. */
  unreadBytes: number
}

export function createGroup(): Group {
  const list = () => new LinkedList<Connection>()
  return { silent: list(), idle: list(), waiting: list(), busy: list(), unreadBytes: 0 }
}

export function sizeOf({ silent, idle, waiting, busy }: Group): number {
  return silent.size + idle.size + waiting.size + busy.size
}

/** One that is to be answered. */
export type Request = {
  readonly outgoing: Answer
  /** Resolves when the whole answer was handed to `outgoing`. */
  readonly answer: () => Promise<void>
  /** Requests of different clients take turns. */
  readonly client: string
}

/** What is owed on one connection. */
export class Connection {
  readonly socket: Socket
  readonly address: string
  /** Its request, while that waits. */
  request: Request | null = null
  readonly waitingPlace = new Place<Connection>(this)
  /** Its client sends no more. */
  hasHungUp = false
  /** The next requests, which are answered one after another. */
  readonly pipelined: Request[] = []
  /** Bytes of the answer that the client had not read when it was written. */
  unreadBytes = 0
  unreadSinceMs = 0
  /** That answer. */
  unread: Answer | null = null
  readonly unreadPlace = new Place<Connection>(this)
  readonly #memberships: readonly { readonly group: Group; readonly place: Place<Connection> }[]
  #phase: Phase = 'silent'
  #phaseSinceMs = 0

  constructor(socket: Socket, address: string, groups: readonly Group[]) {
    this.socket = socket
    this.address = address
    this.#memberships = groups.map(group => ({ group, place: new Place<Connection>(this) }))
    this.enter('silent')
  }

  get phase(): Phase {
    return this.#phase
  }

  get phaseSinceMs(): number {
    return this.#phaseSinceMs
  }

  enter(phase: Phase): void {
    for (const { group, place } of this.#memberships) group[phase].add(place)
    this.#phase = phase
    this.#phaseSinceMs = performance.now()
  }

  /** Is in no group any more. */
  leave(): void {
    for (const { group, place } of this.#memberships) group[this.#phase].remove(place)
  }

  /** Whether nothing of its answer was read for a while. */
  hasStalled(now: number): boolean {
    return now - Math.max(this.unreadSinceMs, this.unread?.lastPieceMs ?? 0) > STALLED_MS
  }

  isIn(group: Group): boolean {
    return this.#memberships.some(one => one.group === group)
  }

  countUnread(bytes: number): void {
    for (const { group } of this.#memberships) group.unreadBytes += bytes
  }
}
