import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LinkedList, Place } from './linked_list.ts'

/** If nothing of an answer is read for this long, its connection may be closed to make room. */
const STALLED_MS = 1000

/** The properties of an answer that a connection needs. */
export type ObservedResponse = ServerResponse & { readonly unreadBytes: number; readonly lastPieceMs: number }

/**
 * `silent`: no request yet. `idle`: answered, may send another. `waiting`: its request has not started. `busy`: its
 * request is being answered.
 */
type Phase = 'silent' | 'idle' | 'waiting' | 'busy'

/** Connections of one address, or of all: in each phase, longest first. */
export type Group = Readonly<Record<Phase, LinkedList<Connection>>> & {
  /** Bytes of answers not yet read. */
  unreadBytes: number
}

export function createGroup(): Group {
  const list = () => new LinkedList<Connection>()
  return { silent: list(), idle: list(), waiting: list(), busy: list(), unreadBytes: 0 }
}

export function groupSize({ silent, idle, waiting, busy }: Group): number {
  return silent.size + idle.size + waiting.size + busy.size
}

/** A request to answer. */
export type Request = {
  readonly outgoing: ObservedResponse
  /** Resolves when the whole answer has been passed to `outgoing`. */
  readonly answer: () => Promise<void>
  /** Requests of different clients take turns. */
  readonly client: string
}

/** The requests and the unread answer of one connection. */
export class Connection {
  readonly socket: Socket
  readonly address: string
  /** Its request while it waits. */
  request: Request | null = null
  readonly waitingPlace = new Place<Connection>(this)
  /** Its client will send nothing more. */
  hasHungUp = false
  /** The next requests, answered one after another. */
  readonly pipelined: Request[] = []
  /** Bytes of the answer still unread when it was written. */
  unreadBytes = 0
  unreadSinceMs = 0
  /** The answer to its request while it is being made; a stream is sent meanwhile. */
  answering: ObservedResponse | null = null
  /** The answer that is unread. */
  unread: ObservedResponse | null = null
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

  /** Removes it from all groups. */
  leave(): void {
    for (const { group, place } of this.#memberships) group[this.#phase].remove(place)
  }

  /** Returns whether nothing of its answer was read for `STALLED_MS`. */
  hasStalled(now: number): boolean {
    const sinceMs = this.answering ? this.answering.lastPieceMs : this.unreadSinceMs
    return now - Math.max(sinceMs, this.unread?.lastPieceMs ?? 0) > STALLED_MS
  }

  /** Returns whether its answer is a stream of which its client has not taken the last piece within this time. */
  isStuck(now: number, withinMs: number): boolean {
    const { answering } = this
    return answering !== null && answering.writableLength > 0 && now - answering.lastPieceMs > withinMs
  }

  isIn(group: Group): boolean {
    return this.#memberships.some(one => one.group === group)
  }

  countUnread(bytes: number): void {
    for (const { group } of this.#memberships) group.unreadBytes += bytes
  }
}
