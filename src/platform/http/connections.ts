import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { createAllowance } from './allowance.ts'
import { networkOf, peerAddress } from './client_address.ts'
import { Connection, createGroup, type Group, type Request, sizeOf } from './connection.ts'
import { LinkedList } from './linked_list.ts'
import { Pace } from './pace.ts'
import { WaitingRoom } from './waiting_room.ts'

/** Of a client that sends requests without waiting for their answers (pipelining); more than any real one does. */
const MAX_PIPELINED = 100
/** The same of all connections together: a request that waits takes some 4 kB. */
const MAX_PIPELINED_IN_ALL = 10_000
/**
 * Answers that clients have not read yet. Beyond `wanted`, those of the address with most of them are cut that have
 * stalled; beyond `most` also others, the oldest first.
 */
const UNREAD_BYTES = { wanted: 128 * 1024 * 1024, most: 160 * 1024 * 1024 }
/** Each of these gives an answer its time once more: by default 64 kB/s, so that slow lines are served. */
const BYTES_IN_TIME = 2 * 1024 * 1024
/** Time of a turn of the event loop in which requests may begin; the others wait. */
const BEGIN_WITHIN_MS = 2
/** An address may have so many connections cut before it gets fewer; one a second is forgiven. */
const CUTS = { atOnce: 20, refillMs: 1000 }
/** New connections of an address that gets fewer. */
const AFTER_CUTS = { atOnce: 8, refillMs: 100 }
/** More connections than operators, health checks and a few clients have. */
const CROWD = 32
/** How often answers that are read too slowly are looked for. */
const LOOK_EVERY_MS = 1000

export type ConnectionLimits = {
  readonly maxConnections: number
  /** Of one address, unless it is exempt. */
  readonly maxPerAddress: number
  /** A new connection must have sent its first request by then. */
  readonly requestWithinMs: number
  /** After an answer the next request must have been sent whole by then. */
  readonly idleWithinMs: number
  /** An answer of few bytes must have been read by then; large ones have longer. */
  readonly answerWithinMs: number
  /** Proxies bring many clients over few addresses. */
  readonly isExempt: (address: string) => boolean
  /** Called when many connections are open, and when they are few again. */
  readonly onCrowd: (isCrowd: boolean) => void
}

/** What was refused, since the start. */
export type ConnectionCounts = {
  /** Idle connections that made way for new ones. */
  evicted: number
  /** New connections that found no room. */
  refused: number
  /** Connections whose answer was not read in time, that pipelined too much, or whose request made way for new ones. */
  cut: number
  /** Requests whose connection was lost before they began. */
  abandoned: number
}

/**
 * Bounds what clients can make a server hold: connections, requests that wait on one, and answers that nobody
 * reads. A new connection takes the place of an idle one of the same address, so a flood shuts nobody else out.
 */
export class Connections {
  readonly counts: ConnectionCounts = { evicted: 0, refused: 0, cut: 0, abandoned: 0 }
  readonly #limits: ConnectionLimits
  readonly #all = createGroup()
  readonly #byNetwork = new Map<string, Group>()
  readonly #bySocket = new Map<Socket, Connection>()
  /** Whose answer waits to be read, the longest first. */
  readonly #unread = new LinkedList<Connection>()
  readonly #cuts = createAllowance(CUTS)
  readonly #afterCuts = createAllowance(AFTER_CUTS)
  readonly #waiting = new WaitingRoom<Connection>({
    pace: new Pace(BEGIN_WITHIN_MS),
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

  /** Requests that have not begun, but those that wait behind another on their connection. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Bytes of answers that clients have not read yet. */
  get unreadBytes(): number {
    return this.#all.unreadBytes
  }

  /** Takes a new connection, perhaps in the place of another, or refuses it. */
  accept(socket: Socket): void {
    const address = peerAddress(socket)
    const network = networkOf(address)
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
    // Node makes an error for each request that was still unanswered, and nobody sees them. Of thousands that came
    // with one packet, their stacks alone would stop the loop for a second.
    socket.prependOnceListener('close', () => {
      Error.stackTraceLimit = 0
    })
    socket.once('close', () => {
      Error.stackTraceLimit = stackTraceLimit
      this.#forget(connection)
      if (sizeOf(group) === 0 && this.#byNetwork.get(network) === group) this.#byNetwork.delete(network)
    })
  }

  /** Answers a request when those before it on its connection have been answered and read. */
  answer(incoming: IncomingMessage, request: Request): void {
    const connection = this.#bySocket.get(incoming.socket)
    // Without a connection, it was closed while this was still in the parser.
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

  /** Whether an answer is owed on it. */
  isBusy(socket: unknown): boolean {
    const connection = this.#bySocket.get(socket as Socket)
    return connection !== undefined && isOwed(connection)
  }

  /** Closes connections that have no answer under way. */
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
    await answer()
    const bytes = outgoing.unreadBytes
    if (bytes === 0 || outgoing.closed || connection.socket.destroyed) return
    connection.unread = outgoing
    connection.unreadBytes = bytes
    connection.unreadSinceMs = performance.now()
    this.#unread.add(connection.unreadPlace)
    connection.countUnread(bytes)
    this.#cutUnread()
  }

  /** Of the address that has most of them: nobody else is cut for its sake. */
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
    // In another turn: one that asks for much must not keep the others from theirs. It stays busy until then.
    setImmediate(() => {
      if (!connection.socket.destroyed) this.#enter(connection, next)
    })
  }

  /** The client sends no more, and mostly has gone. What is on its way to it goes on; nothing else is made for it. */
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
    this.#cutUnread()
    for (const connection of this.#unread) {
      const allowedMs = this.#limits.answerWithinMs * (1 + connection.unreadBytes / BYTES_IN_TIME)
      if (now - connection.unreadSinceMs > allowedMs) this.#cut(connection)
    }
    for (const connection of this.#all.silent) {
      if (now - connection.phaseSinceMs <= this.#limits.requestWithinMs) break
      this.#cut(connection)
    }
    // Node closes those that are silent; one that sends empty lines begins no request, and stays.
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

  /** Whether an address may have one more connection, perhaps in the place of another. */
  #isWelcome(address: string, group: Group): boolean {
    const { isExempt, maxPerAddress } = this.#limits
    if (isExempt(address)) return true
    if (this.#cuts.waitSeconds(address) > 0) {
      if (this.#afterCuts.waitSeconds(address) > 0) return false
      this.#afterCuts.spend(address)
    }
    return sizeOf(group) < maxPerAddress || this.#makeRoom(group)
  }

  #cut(connection: Connection): void {
    this.counts.cut += 1
    this.#cuts.spend(connection.address)
    this.#forget(connection)
    stopParsing(connection.socket)
    connection.socket.destroy()
  }

  /** Closes the connection of a group that misses least: silent, idle, or one whose answer is not read. */
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

  /** In the group that has most; if it does nothing but ask, the request that came last makes way. */
  #makeRoomForAll(): boolean {
    const group = this.#largestGroup(sizeOf)
    if (this.#makeRoom(group)) return true
    const { last } = group.waiting
    if (last) this.#cut(last)
    return last !== null
  }

  /** Its place is free from now on; may be called again. */
  #forget(connection: Connection): void {
    connection.leave()
    this.#bySocket.delete(connection.socket)
    this.#wasRead(connection)
    if (this.#waiting.leave(connection.waitingPlace)) this.counts.abandoned += 1
    connection.request = null
    // Nobody is left to answer.
    this.#pipelined -= connection.pipelined.length
    connection.pipelined.length = 0
  }

  /** The address that has most of something; all of them if none has any. */
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
 * A packet holds hundreds of requests, and Node goes on to make objects of them though the connection is closed: a
 * hundred connections at once would stop the loop for a second. Its parser has a stop for that; a version that has
 * none is slower.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as { parser?: { pause?: () => void } | null }
  parser?.pause?.()
}
