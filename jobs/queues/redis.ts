import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import type { Address, RedisSettings, SentinelSettings } from '#config/daemon.ts'
import { getMessage } from '#src/lib/errors.ts'
import { formatHostAndPort } from '#src/lib/http/settings.ts'
import {
  explainLostConnection,
  isHangUp,
  isLostJob,
  probe,
  type RedisProblem,
  recognizeRedisProblem,
} from './redis_problem.ts'

/** A connection to one Redis, or to a cluster. */
export type RedisClient = Redis | Cluster

/** A failover takes less than this; until then a command that a replica refused is sent to the new master. */
const FAILOVER_WITHIN_MS = 3000
/** A refusal by a replica belongs to a new failover if the last one is at least this old. */
const FAILOVER_OVER_MS = 30_000

export type RedisConnection = {
  readonly redis: RedisClient
  /** Returns why Redis cannot be used now, and what to do; null if no problem is known. */
  problem(): RedisProblem | null
  /** Handles an error from BullMQ or from one of our commands, and logs it if it is new. */
  note(error: unknown): void
  /** Stops probing Redis and logging its problems. */
  end(): void
}

/**
 * Connects, and reconnects until Redis is back. Logs each problem once until Redis works again. Replaces a connection
 * that is silent when an answer is due: the other side may be gone without closing it.
 */
export function connectRedis(settings: RedisSettings, log: Logger): RedisConnection {
  const { url: address, prefix, cluster: nodes } = settings
  const open = <T extends RedisClient>(redis: T, listen: (redis: T, status: RedisStatus) => void) => {
    const status = new RedisStatus({ redis, address, prefix, log })
    listen(redis, status)
    return { redis, status }
  }
  const { redis, status } = nodes
    ? open(connectCluster(nodes, settings), (cluster, its) => listenToCluster(cluster, its, address))
    : open(connectOne(settings), listen)
  return {
    redis,
    problem: () => status.problem,
    note: error => status.note(error),
    end: () => status.end(),
  }
}

function connectOne(settings: RedisSettings): Redis {
  const { url, ca, sentinels } = settings
  const options = {
    // BullMQ's workers require this: commands wait for Redis to come back instead of failing.
    maxRetriesPerRequest: null,
    retryStrategy: (tries: number) => Math.min(tries * 100, MAX_RECONNECT_MS),
    reconnectOnError: followFailover(),
    connectTimeout: REDIS_TIMEOUT_MS,
    socketTimeout: REDIS_TIMEOUT_MS,
    ...(ca === null ? {} : { tls: { ca } }),
    ...(sentinels === null ? {} : throughSentinels(sentinels, settings)),
  } satisfies RedisOptions
  const redis = new Redis(url, options)
  const duplicate = redis.duplicate.bind(redis)
  // BullMQ duplicates the connection for its blocking commands.
  redis.duplicate = override => {
    const own = duplicate({ ...override, socketTimeout: MAX_SILENCE_MS })
    own.on('error', error => leaveWrongDatabase(own, error))
    return own
  }
  return redis
}

/** Makes the options for connecting through sentinels: each attempt to connect asks them for the current address of Redis. */
function throughSentinels(
  { hosts, name, password }: SentinelSettings,
  { url, ca }: Pick<RedisSettings, 'url' | 'ca'>,
) {
  const tls = ca === null ? {} : { ca }
  return {
    sentinels: hosts.map(host => ({ ...host })),
    name,
    // One that hangs must not keep us from asking the next.
    sentinelCommandTimeout: REDIS_TIMEOUT_MS,
    ...(password === null ? {} : { sentinelPassword: password }),
    // Either all of them use TLS, or none.
    ...(url.startsWith('rediss:') ? { tls, enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
  }
}

function listen(redis: Redis, status: RedisStatus): void {
  let isReady = false
  let isExplained = false
  const lost = (error: unknown) => {
    isExplained = true
    status.lost(error, { wasReady: isReady })
  }
  redis.on('connecting', () => {
    isReady = false
    isExplained = false
  })
  // Each command that a replica refuses disconnects again, and ioredis then adds a listener to the stream.
  redis.on('connect', () => redis.stream.setMaxListeners(0))
  redis.on('error', error => {
    lost(error)
    leaveWrongDatabase(redis, error)
  })
  redis.on('ready', () => {
    isReady = true
    status.connected()
  })
  redis.on('close', () => {
    if (!isReady && !isExplained) lost(Object.assign(new Error('the server hung up'), { code: 'ECONNRESET' }))
  })
}

/** Reconnects if SELECT failed: ioredis only reports that error, and continues in database 0. */
function leaveWrongDatabase(redis: Redis, error: unknown): void {
  if (/DB index is out of range|invalid DB index|SELECT is not allowed/.test(getMessage(error))) {
    redis.disconnect(true)
  }
}

/**
 * Creates the handler for errors after a failover, when the address may point to another server: it reconnects, and for a while
 * resends the command (2). If the server stays a replica, it still reconnects, but lets the command fail (1).
 */
function followFailover(): (error: Error) => false | 1 | 2 {
  let sinceMs = Number.NEGATIVE_INFINITY
  let lastMs = Number.NEGATIVE_INFINITY
  return error => {
    if (!/\bREADONLY /.test(error.message)) return false
    // Not the system clock, which may go back.
    const nowMs = performance.now()
    if (nowMs - lastMs > FAILOVER_OVER_MS) sinceMs = nowMs
    lastMs = nowMs
    return nowMs - sinceMs < FAILOVER_WITHIN_MS ? 2 : 1
  }
}

/** The longest wait between two attempts to reconnect. */
const MAX_RECONNECT_MS = 2000
/**
 * How long Redis may take to answer a command before its connection is replaced. A worker sends a command every
 * 10 s, so it notices a connection that died silently within twice that.
 */
const REDIS_TIMEOUT_MS = 10_000
/** BullMQ's blocking commands wait up to 10 s, so their connections may be silent for that much longer. */
const MAX_SILENCE_MS = REDIS_TIMEOUT_MS + 10_000
/** A command whose master is gone or whose slot moves is sent again this much later … */
const AGAIN_MS = 200
/** … and this often, about half an hour: longer than any failover, but not without end. */
const MAX_AGAIN = 10_000
/** A node that does not name the others within this is passed over. */
const SLOTS_WITHIN_MS = 2000

/**
 * Connects to a cluster by some of its nodes. Commands wait for a failover. While the cluster refuses them (CLUSTERDOWN),
 * they fail, as those that a single Redis refuses do.
 */
function connectCluster(nodes: readonly Address[], { url, ca }: Pick<RedisSettings, 'url' | 'ca'>): Cluster {
  const { username, password, protocol } = new URL(url)
  const redisOptions = {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: ca === null ? {} : { ca } } : {}),
    // BullMQ's workers require it.
    maxRetriesPerRequest: null,
    connectTimeout: REDIS_TIMEOUT_MS,
    socketTimeout: REDIS_TIMEOUT_MS,
  }
  const cluster = new Cluster(
    nodes.map(node => ({ ...node })),
    {
      redisOptions,
      clusterRetryStrategy: tries => Math.min(tries * 100, MAX_RECONNECT_MS),
      // It would reconnect to a cluster that is down without an error. A probe reports it.
      enableReadyCheck: false,
      maxRedirections: MAX_AGAIN,
      retryDelayOnMoved: AGAIN_MS,
      retryDelayOnFailover: AGAIN_MS,
      retryDelayOnTryAgain: AGAIN_MS,
      retryDelayOnClusterDown: 0,
      slotsRefreshTimeout: SLOTS_WITHIN_MS,
      // Certificates are for host names: the lookup is left to the connection.
      dnsLookup: (host, callback) => callback(null, host),
    },
  )
  const duplicate = cluster.duplicate.bind(cluster)
  // BullMQ duplicates the connection for its blocking commands.
  cluster.duplicate = (others, override) => {
    const own = { ...override?.redisOptions, socketTimeout: MAX_SILENCE_MS }
    return duplicate(others, { ...override, redisOptions: own })
  }
  return cluster
}

/** Reports the state of the cluster to the status; `address` is that of its first node. */
function listenToCluster(cluster: Cluster, status: RedisStatus, address: string): void {
  const { protocol } = new URL(address)
  let isReady = false
  let isExplained = false
  let cause: { readonly error: unknown; readonly address: string } | null = null
  const lost = (error: unknown) => {
    isExplained = true
    status.lost(cause?.error ?? error, { wasReady: isReady, address: cause?.address ?? address })
  }
  cluster.on('connecting', () => {
    isReady = false
    isExplained = false
    cause = null
  })
  cluster.on('+node', (node: Redis) => {
    const { host = '', port = 0 } = node.options
    const own = `${protocol}//${formatHostAndPort(host, port)}`
    listenToRefreshes(node, error => {
      cause = { error, address: own }
    })
    node.on('error', error => {
      if (isReady) status.doubt(error, own)
    })
  })
  // It names none of the nodes' own errors, but may have the last refusal.
  cluster.on('error', (error: Error & { lastNodeError?: unknown }) => lost(error.lastNodeError ?? error))
  // Its nodes have no slots yet: ioredis then only drops them.
  cluster.on('refresh', () => {
    if (cluster.nodes().length === 0) lost(new Error('CLUSTERDOWN Hash slot not served'))
  })
  cluster.on('ready', () => {
    isReady = true
    status.connected()
  })
  cluster.on('close', () => {
    if (!isExplained) lost(Object.assign(new Error('the server hung up'), { code: 'ECONNRESET' }))
  })
}

/**
 * Reports errors of the connection that ioredis duplicates to learn where the slots are. ioredis drops them, and the cluster then
 * only reports that a connection was closed.
 */
function listenToRefreshes(node: Redis, onError: (error: unknown) => void): void {
  const duplicate = node.duplicate.bind(node)
  node.duplicate = override => duplicate(override).on('error', onError)
}

const GREETING_WITHIN_MS = 1000

/**
 * Reads what the server sends on connect, before any command. A Redis in protected mode, or with too many clients,
 * sends the reason and hangs up; a client that is writing then loses the connection before it has read the reason.
 * @returns the first line without its `-`; null if the server sends no such line.
 */
async function refusalAtTheDoor(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url)
  if (protocol !== 'redis:') return null
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) })
  socket.setTimeout(GREETING_WITHIN_MS, () => socket.destroy())
  let greeting = ''
  try {
    for await (const bytes of socket) {
      greeting += String(bytes)
      if (greeting.includes('\n')) break
    }
  } catch {
    // The server hung up or is away: use what it sent.
  } finally {
    socket.destroy()
  }
  return /^-(.+?)\r?\n/.exec(greeting)?.[1] ?? null
}

/** A Redis that refuses commands is probed again after this. */
const PROBE_MS = 2000
/** An error is logged again if it has not occurred for this long. */
const LOG_AGAIN_MS = 60_000
/** A cluster whose node failed has a problem if it does not answer for this long. */
const DOUBT_MS = 2000

type Watched = {
  readonly redis: RedisClient
  readonly address: string
  readonly prefix: string
  readonly log: Logger
}

/** Whether Redis can be used, from the events of one connection, the errors of all, and probes. Logs each change. */
class RedisStatus {
  readonly #watched: Watched
  readonly #once: ReturnType<typeof createOnce>
  #problem: RedisProblem | null = null
  #timer: NodeJS.Timeout | null = null
  #isLogged = false
  #isOver = false
  #probing: Promise<void> | null = null
  #isAtTheDoor = false
  /** A refusal that a running probe may explain. */
  #vague: RedisProblem | null = null
  #wasEverReady = false

  constructor(watched: Watched) {
    this.#watched = watched
    this.#once = createOnce(watched.log)
  }

  /** Returns why Redis cannot be used now; null if no problem is known. */
  get problem(): RedisProblem | null {
    return this.#problem
  }

  /** Notes that the connection is ready for commands. */
  connected(): void {
    this.#wasEverReady = true
    // Wait before probing a Redis that refuses: each refusal by a replica makes us reconnect.
    if (this.#problem?.kind === 'refused') this.#refused(this.#problem)
    else void this.#check()
  }

  /** Notes that the connection was lost, or could not be made. @param address the node of a cluster that the error is about. */
  lost(
    error: unknown,
    { wasReady, address = this.#watched.address }: { wasReady: boolean; address?: string },
  ): void {
    const found = explainLostConnection(error, address, { wasEverReady: this.#wasEverReady })
    if (!isHangUp(error)) this.#became(found)
    // A problem already known explains more than the hang-up does.
    else if (this.#problem === null || this.#problem.kind === 'away') {
      this.#problem = found
      // If the connection was ready, the next attempt shows the cause.
      if (!wasReady) void this.#explainHangUp(found, address)
    }
  }

  /**
   * Notes that a node of a cluster failed. That is a problem only if our keys are on it and no replica takes over, so only if a
   * probe is not answered soon.
   */
  doubt(error: unknown, address: string): void {
    const timer = setTimeout(() => {
      if (this.#problem === null) this.#became(explainLostConnection(error, address, { wasEverReady: true }))
    }, DOUBT_MS)
    void this.#check().finally(() => clearTimeout(timer))
  }

  /** Notes an error from BullMQ or from one of our commands. */
  note(error: unknown): void {
    const found = recognizeRedisProblem(error, this.#watched.address)
    // Redis does not name the refused command of a script. The probe does, even if it is already running.
    if (found?.kind === 'refused' && found.isVague) {
      if (this.#probing) this.#vague ??= found
      else void this.#check(found)
    } else if (found?.kind === 'refused') this.#refused(found)
    // Our own connection reports the other connection errors; BullMQ's connections only repeat them.
    else if (found === null) this.#once.error(describe(error), isLostJob(error) ? 'lost jobs' : undefined)
  }

  /** Ends probes and log lines. */
  end(): void {
    this.#isOver = true
    if (this.#timer) clearTimeout(this.#timer)
  }

  #became(next: RedisProblem): void {
    if (this.#isOver) return
    if (!this.#isLogged) this.#once.forget()
    this.#isLogged = true
    this.#problem = next
    // One outage causes several different errors in a row.
    if (next.kind === 'away') this.#once.error(`${next.sentence} Retrying until it answers.`, next.kind)
    else this.#once.error(next.sentence, next.sentence)
  }

  #well(): void {
    if (this.#isLogged) this.#watched.log.info('Redis answers again.')
    this.#problem = null
    this.#isLogged = false
  }

  #refused(found: RedisProblem): void {
    this.#became(found)
    if (this.#timer || this.#isOver) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      void this.#check()
    }, PROBE_MS)
  }

  /**
   * Probes Redis with a write, which alone shows that Redis can be used: a replica or a full Redis answers reads too.
   * @param otherwise the problem of a command, reported if the probe finds none.
   */
  async #check(otherwise: RedisProblem | null = null): Promise<void> {
    // One probe at a time: a probe that a replica refused is resent to the new master.
    if (this.#probing) return await this.#probing
    if (this.#isOver || this.#watched.redis.status !== 'ready') return
    this.#vague = otherwise
    this.#probing = this.#probe().finally(() => {
      this.#probing = null
    })
    await this.#probing
  }

  async #probe(): Promise<void> {
    const { redis, prefix, address } = this.#watched
    try {
      await probe(redis, prefix)
      if (this.#vague) this.#refused(this.#vague)
      else this.#well()
    } catch (error) {
      const found = recognizeRedisProblem(error, address)
      if (found?.kind === 'refused') this.#refused(found)
      else this.note(error)
    }
  }

  async #explainHangUp(found: RedisProblem, address: string): Promise<void> {
    const { redis } = this.#watched
    if (this.#isAtTheDoor) return
    this.#isAtTheDoor = true
    const text = await refusalAtTheDoor(address)
    this.#isAtTheDoor = false
    // Meanwhile another attempt may have connected, or found another problem.
    if (this.#problem?.kind === 'away' && redis.status !== 'ready')
      this.#became(text === null ? found : explainLostConnection(new Error(text), address))
  }
}

function describe(error: unknown): string {
  const text = getMessage(error)
  if (error instanceof SyntaxError)
    return 'A job in Redis is not JSON, so no worker can do it. Another program changed it. Other jobs go on.'
  if (!isLostJob(error)) return `Queue error: ${text}`
  const job = /job (\S+?)\.?(?:\s|$)/.exec(text)?.[1] ?? ''
  return `This worker lost job ${job}: Redis was away for longer than JOB_LOCK_MS, or lost its data. What the run fetched is kept; the next run continues from there.`
}

/** Logs an error again only if it has not occurred for a minute. */
function createOnce(log: Logger) {
  const loggedAtMs = new Map<string, number>()
  return {
    error(message: string, about = message) {
      const lastMs = loggedAtMs.get(about)
      const nowMs = performance.now()
      loggedAtMs.set(about, nowMs)
      if (lastMs === undefined || nowMs - lastMs > LOG_AGAIN_MS) log.error(message)
    },
    forget: () => loggedAtMs.clear(),
  }
}

/** Redis is away, or does not answer in time. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError'

  constructor(how: string) {
    super(`Redis does not answer (${how}).`)
  }
}

/**
 * Asks Redis for a caller that waits for the answer. Our connection keeps commands while Redis is away, so a command
 * that is given up here would still run when Redis is back. So none is sent while it is away.
 * @throws RedisAwayError at once if Redis is away, and after `ms` if it does not answer.
 */
export async function askRedis<T>(redis: RedisClient, ms: number, ask: () => Promise<T>): Promise<T> {
  if (redis.status !== 'ready') throw new RedisAwayError('not connected')
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new RedisAwayError(`nothing within ${ms / 1000} s`)), ms)
  try {
    return await Promise.race([ask(), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const firstTries = new WeakMap<RedisClient, Promise<void>>()

/** Resolves when the first attempt to connect has ended, or after `ms`: until then it is unknown if Redis is away. */
export async function awaitFirstTry(redis: RedisClient, ms: number): Promise<void> {
  const known = firstTries.get(redis)
  if (known) return await known
  const over = new Promise<void>(resolve => {
    if (!['wait', 'connecting', 'connect'].includes(redis.status)) return resolve()
    for (const event of ['ready', 'close', 'end']) redis.once(event, () => resolve())
    setTimeout(resolve, ms).unref()
  })
  firstTries.set(redis, over)
  await over
}

/** Repeats the work, with a pause after each time, until the signal is aborted. */
export async function repeatEvery(
  intervalMs: number,
  work: () => Promise<void>,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(onError)
    await sleep(intervalMs, undefined, { signal }).catch(() => {})
  }
}
