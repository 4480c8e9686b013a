import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import type { Address, RedisSettings, SentinelSettings } from '#config/daemon.ts'
import { messageOf } from '#src/lib/errors.ts'
import type { RedisProblem } from './redis_problem.ts'
import { RedisStatus } from './redis_status.ts'

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
  if (/DB index is out of range|invalid DB index|SELECT is not allowed/.test(messageOf(error))) {
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
    const own = `${protocol}//${host.includes(':') ? `[${host}]` : host}:${port}`
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
