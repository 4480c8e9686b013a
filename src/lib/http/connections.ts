import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createAllowance, findNetwork, readPeerAddress } from './client_address.ts'
import { LinkedList, Place, TurnPace, WaitingRoom } from './waiting_room.ts'

/** If nothing of an answer is read for this long, its connection may be closed to make room. */
const STALLED_MS = 1000

/** The properties of an answer that a connection needs. */
type ObservedResponse = ServerResponse & { readonly unreadBytes: number; readonly lastPieceMs: number }

/**
 * `silent`: no request yet. `idle`: answered, may send another. `waiting`: its request has not started. `busy`: its
 * request is being answered.
 */
type Phase = 'silent' | 'idle' | 'waiting' | 'busy'

/** Connections of one address, or of all: in each phase, longest first. */
type Group = Readonly<Record<Phase, LinkedList<Connection>>> & {
  /** Bytes of answers not yet read. */
  unreadBytes: number
}

function createGroup(): Group {
  const list = () => new LinkedList<Connection>()
  return { silent: list(), idle: list(), waiting: list(), busy: list(), unreadBytes: 0 }
}

function groupSize({ silent, idle, waiting, busy }: Group): number {
  return silent.size + idle.size + waiting.size + busy.size
}

/** A request to answer. */
type Request = {
  readonly outgoing: ObservedResponse
  /** Resolves when the whole answer has been passed to `outgoing`. */
  readonly answer: () => Promise<void>
  /** Requests of different clients take turns. */
  readonly client: string
}

/** The requests and the unread answer of one connection. */
class Connection {
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

/** Requests that a client may send without waiting for answers (pipelining); more than any real client sends. */
const MAX_PIPELINED = 100
/** The limit for all connections together: a waiting request takes about 4 kB. */
const MAX_PIPELINED_IN_ALL = 10_000
/**
 * Answers that clients have not read yet. Above `wanted`, stalled connections of the address with the most unread
 * bytes are cut; above `most`, its other connections too, oldest first.
 */
const UNREAD_BYTES = { wanted: 128 * 1024 * 1024, most: 160 * 1024 * 1024 }
/** Each of these extends an answer's time limit once: by default 64 kB/s, so that slow lines are served. */
const BYTES_IN_TIME = 2 * 1024 * 1024
/** Per turn of the event loop, requests may start within this time; the others wait. */
const BEGIN_WITHIN_MS = 2
/** After this many cut connections, an address gets fewer new ones. One cut per second is forgiven. */
const CUTS = { atOnce: 20, refillMs: 1000 }
/** Limit on new connections for such an address. */
const AFTER_CUTS = { atOnce: 8, refillMs: 100 }
/** More connections than operators, health checks and a few clients open. */
const CROWD = 32
/** How often to check for slow readers. */
const LOOK_EVERY_MS = 1000

type ConnectionLimits = {
  readonly maxConnections: number
  /** Per address, unless it is exempt. */
  readonly maxPerAddress: number
  /** A new connection must send its first request within this time. */
  readonly requestWithinMs: number
  /** After an answer, the next request must be complete within this time. */
  readonly idleWithinMs: number
  /** A small answer must be read within this time; large answers get longer. */
  readonly answerWithinMs: number
  /** For proxies, which carry many clients over few addresses. */
  readonly isExempt: (address: string) => boolean
  /** Called when many connections are open, and again when only a few are. */
  readonly onCrowd: (isCrowd: boolean) => void
}

/** Connections and requests turned away since the start. */
export type ConnectionCounts = {
  /** Idle connections closed for new ones. */
  evicted: number
  /** New connections refused for lack of room. */
  refused: number
  /** Connections that did not read in time or pipelined too much, or whose waiting request was dropped for new ones. */
  cut: number
  /** Requests whose connection was lost before they started. */
  abandoned: number
}

/**
 * Bounds what clients can make a server hold: connections, requests waiting on them, and unread answers. A new
 * connection replaces an idle one of the same address, so a flood does not shut out other clients.
 */
export class Connections {
  readonly counts: ConnectionCounts = { evicted: 0, refused: 0, cut: 0, abandoned: 0 }
  readonly #limits: ConnectionLimits
  readonly #all = createGroup()
  readonly #byNetwork = new Map<string, Group>()
  readonly #bySocket = new Map<Socket, Connection>()
  /** Connections with an unread answer, longest wait first. */
  readonly #unread = new LinkedList<Connection>()
  readonly #cuts = createAllowance(CUTS)
  readonly #afterCuts = createAllowance(AFTER_CUTS)
  readonly #waiting = new WaitingRoom<Connection>({
    pace: new TurnPace(BEGIN_WITHIN_MS),
    hasRoom: () => true,
    begin: connection => void this.#begin(connection),
  })
  readonly #timer: NodeJS.Timeout
  #pipelined = 0
  #isCrowd = false

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
    this.#timer = setInterval(() => this.#cutSlow(), LOOK_EVERY_MS).unref()
  }

  get open(): number {
    return this.#bySocket.size
  }

  /** Requests that have not started, except those queued behind another on their connection. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Returns the number of bytes of answers that clients have not read yet. */
  get unreadBytes(): number {
    return this.#all.unreadBytes
  }

  /** Accepts a new connection, perhaps closing another for it, or refuses it. */
  accept(socket: Socket): void {
    const address = readPeerAddress(socket)
    const network = findNetwork(address)
    const group = this.#byNetwork.get(network) ?? createGroup()
    if (
      !this.#isWelcome(address, group) ||
      (this.open >= this.#limits.maxConnections && !this.#makeRoomForAll())
    ) {
      this.counts.refused += 1
      socket.destroy()
      return
    }
    const connection = new Connection(socket, address, [this.#all, group])
    this.#byNetwork.set(network, group)
    this.#bySocket.set(socket, connection)
    if (!this.#isCrowd && this.open > CROWD) this.#setCrowd(true)
    socket.on('end', () => this.#hungUp(connection))
    const { stackTraceLimit } = Error
    // Node creates an unused error for each unanswered request. For thousands of requests from one packet, their
    // stack traces alone would block the loop for a second.
    socket.prependOnceListener('close', () => {
      Error.stackTraceLimit = 0
    })
    socket.once('close', () => {
      Error.stackTraceLimit = stackTraceLimit
      this.#forget(connection)
      if (groupSize(group) === 0 && this.#byNetwork.get(network) === group) this.#byNetwork.delete(network)
    })
  }

  /** Answers a request once the previous ones on its connection have been answered and read. */
  answer(incoming: IncomingMessage, request: Request): void {
    const connection = this.#bySocket.get(incoming.socket)
    // The connection was closed while this request was still in the parser.
    if (!connection) return
    if (!isOwed(connection)) this.#enter(connection, request)
    else if (
      connection.pipelined.length < MAX_PIPELINED &&
      (this.#pipelined < MAX_PIPELINED_IN_ALL || connection.pipelined.length === 0)
    ) {
      connection.pipelined.push(request)
      this.#pipelined += 1
    } else this.#cut(connection)
  }

  /** Returns whether a request on it awaits its answer. */
  isBusy(socket: unknown): boolean {
    const connection = this.#bySocket.get(socket as Socket)
    return connection !== undefined && isOwed(connection)
  }

  /** Closes connections that await no answer. */
  closeIdle(): void {
    for (const { socket } of [...this.#all.silent, ...this.#all.idle]) socket.destroy()
  }

  closeAll(): void {
    clearInterval(this.#timer)
    for (const socket of this.#bySocket.keys()) socket.destroy()
  }

  #enter(connection: Connection, request: Request): void {
    connection.enter('waiting')
    connection.request = request
    request.outgoing.once('close', () => this.#answered(connection))
    this.#waiting.enter(request.client, connection.waitingPlace)
  }

  async #begin(connection: Connection): Promise<void> {
    const { outgoing, answer } = connection.request as Request
    connection.request = null
    connection.enter('busy')
    connection.answering = outgoing
    await answer()
    connection.answering = null
    this.#noteUnread(connection, outgoing)
    this.#cutUnread()
  }

  /** Counts what its client has not read of an answer, or of a stream so far. */
  #noteUnread(connection: Connection, outgoing: ObservedResponse): void {
    this.#wasRead(connection)
    const bytes = outgoing.unreadBytes
    if (bytes === 0 || outgoing.closed || connection.socket.destroyed) return
    connection.unread = outgoing
    connection.unreadBytes = bytes
    connection.unreadSinceMs = performance.now()
    this.#unread.add(connection.unreadPlace)
    connection.countUnread(bytes)
  }

  /** Cuts only connections of the address with the most unread bytes, so that other clients do not pay for it. */
  #cutUnread(): void {
    const now = performance.now()
    while (this.unreadBytes > UNREAD_BYTES.wanted) {
      const mustGo = this.unreadBytes > UNREAD_BYTES.most
      const most = this.#largestGroup(({ unreadBytes }) => unreadBytes)
      const connection = this.#unread.find(one => one.isIn(most) && (mustGo || one.hasStalled(now)))
      if (!connection) return
      this.#cut(connection)
    }
  }

  #answered(connection: Connection): void {
    this.#wasRead(connection)
    if (connection.socket.destroyed) return
    const next = connection.pipelined.shift()
    if (!next) {
      if (connection.hasHungUp) connection.socket.end()
      connection.enter('idle')
      return
    }
    this.#pipelined -= 1
    // In a later turn, so that one client with many requests does not delay the others. It stays busy until then.
    setImmediate(() => {
      if (!connection.socket.destroyed) this.#enter(connection, next)
    })
  }

  /** Notes that the client will send nothing more; it is usually gone. Answers being sent continue; no new ones are started. */
  #hungUp(connection: Connection): void {
    this.#pipelined -= connection.pipelined.length
    connection.pipelined.length = 0
    connection.hasHungUp = true
    if (!connection.unread && connection.phase !== 'waiting') connection.socket.end()
  }

  #wasRead(connection: Connection): void {
    if (!this.#unread.remove(connection.unreadPlace)) return
    connection.countUnread(-connection.unreadBytes)
    connection.unread = null
  }

  #cutSlow(): void {
    if (this.#isCrowd && this.open <= CROWD) this.#setCrowd(false)
    const now = performance.now()
    for (const connection of this.#all.busy)
      if (connection.answering) this.#noteUnread(connection, connection.answering)
    this.#cutUnread()
    for (const connection of this.#unread) {
      // A stream may take for ever; below, it is cut if it is stuck.
      if (connection.answering) continue
      const allowedMs = this.#limits.answerWithinMs * (1 + connection.unreadBytes / BYTES_IN_TIME)
      if (now - connection.unreadSinceMs > allowedMs) this.#cut(connection)
    }
    for (const connection of this.#all.busy)
      if (connection.isStuck(now, this.#limits.answerWithinMs)) this.#cut(connection)
    for (const connection of this.#all.silent) {
      if (now - connection.phaseSinceMs <= this.#limits.requestWithinMs) break
      this.#cut(connection)
    }
    // Node closes silent ones, but not a connection that sends only empty lines and never starts a request.
    for (const connection of this.#all.idle) {
      if (now - connection.phaseSinceMs <= this.#limits.idleWithinMs) break
      this.#forget(connection)
      connection.socket.destroy()
    }
  }

  #setCrowd(isCrowd: boolean): void {
    this.#isCrowd = isCrowd
    this.#limits.onCrowd(isCrowd)
  }

  /** Returns whether an address may have one more connection, perhaps by closing another. */
  #isWelcome(address: string, group: Group): boolean {
    const { isExempt, maxPerAddress } = this.#limits
    if (isExempt(address)) return true
    if (this.#cuts.waitSeconds(address) > 0) {
      if (this.#afterCuts.waitSeconds(address) > 0) return false
      this.#afterCuts.spend(address)
    }
    return groupSize(group) < maxPerAddress || this.#makeRoom(group)
  }

  #cut(connection: Connection): void {
    this.counts.cut += 1
    this.#cuts.spend(connection.address)
    this.#forget(connection)
    stopParsing(connection.socket)
    connection.socket.destroy()
  }

  /** Closes the least useful connection of a group: silent, idle, or stalled on an unread answer. */
  #makeRoom(group: Group): boolean {
    const connection = group.silent.first ?? group.idle.first
    if (connection) {
      this.counts.evicted += 1
      this.#forget(connection)
      connection.socket.destroy()
      return true
    }
    const now = performance.now()
    const stalled = this.#unread.find(one => one.isIn(group) && one.hasStalled(now))
    if (stalled) this.#cut(stalled)
    return stalled !== null
  }

  /** Makes room in the largest group. If all its connections are active, the newest waiting request is cut. */
  #makeRoomForAll(): boolean {
    const group = this.#largestGroup(groupSize)
    if (this.#makeRoom(group)) return true
    const { last } = group.waiting
    if (last) this.#cut(last)
    return last !== null
  }

  /** Frees its place. Safe to call more than once. */
  #forget(connection: Connection): void {
    connection.leave()
    this.#bySocket.delete(connection.socket)
    this.#wasRead(connection)
    if (this.#waiting.leave(connection.waitingPlace)) this.counts.abandoned += 1
    connection.request = null
    this.#pipelined -= connection.pipelined.length
    connection.pipelined.length = 0
  }

  /** Returns the address with the largest measure; all of them if every measure is 0. */
  #largestGroup(measure: (group: Group) => number): Group {
    let largest = this.#all
    let most = 0
    for (const group of this.#byNetwork.values()) {
      if (measure(group) <= most) continue
      largest = group
      most = measure(group)
    }
    return largest
  }
}

function isOwed({ phase }: Connection): boolean {
  return phase === 'waiting' || phase === 'busy'
}

/**
 * Pauses the parser. A packet holds hundreds of requests, and Node keeps creating objects for them after the connection is
 * closed: a hundred connections at once would block the loop for a second. A Node version without this method is only slower.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as { parser?: { pause?: () => void } | null }
  parser?.pause?.()
}
