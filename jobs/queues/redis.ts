import { Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings, SentinelSettings } from '#config/daemon.ts'
import { messageOf } from '#src/lib/errors.ts'
import type { RedisClient } from './redis_client.ts'
import {
  connectCluster,
  listenToCluster,
  MAX_RECONNECT_MS,
  MAX_SILENCE_MS,
  REDIS_TIMEOUT_MS,
} from './redis_cluster.ts'
import type { RedisAddress, RedisProblem } from './redis_problem.ts'
import { RedisStatus } from './redis_status.ts'

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
  const { prefix, cluster: nodes } = settings
  const address = redisAddress(settings)
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

/** Returns the address of Redis for messages: the first sentinel or node of the cluster, whose answer decides where Redis is. */
export function redisAddress({ url, sentinels, cluster }: RedisSettings): RedisAddress {
  const [first] = cluster ?? sentinels?.hosts ?? []
  if (!first) return { url, setting: 'REDIS_URL' }
  const { protocol, pathname } = new URL(url)
  const host = first.host.includes(':') ? `[${first.host}]` : first.host
  const setting = cluster ? 'REDIS_CLUSTER' : 'REDIS_SENTINELS'
  return { url: `${protocol}//${host}:${first.port}${pathname}`, setting }
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
