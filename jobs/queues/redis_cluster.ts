import { Cluster, type Redis } from 'ioredis'
import type { Address, RedisSettings } from '#config/daemon.ts'
import type { RedisAddress } from './redis_problem.ts'
import type { RedisStatus } from './redis_status.ts'

/** The longest wait between two attempts to reconnect. */
export const MAX_RECONNECT_MS = 2000
/**
 * How long Redis may take to answer a command before its connection is replaced. A worker sends a command every
 * 10 s, so it notices a connection that died silently within twice that.
 */
export const REDIS_TIMEOUT_MS = 10_000
/** BullMQ's blocking commands wait up to 10 s, so their connections may be silent for that much longer. */
export const MAX_SILENCE_MS = REDIS_TIMEOUT_MS + 10_000
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
export function connectCluster(
  nodes: readonly Address[],
  { url, ca }: Pick<RedisSettings, 'url' | 'ca'>,
): Cluster {
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
export function listenToCluster(cluster: Cluster, status: RedisStatus, address: RedisAddress): void {
  const { protocol } = new URL(address.url)
  const at = (node: string): RedisAddress => ({ ...address, url: `${protocol}//${node}` })
  let isReady = false
  let isExplained = false
  let cause: { readonly error: unknown; readonly address: RedisAddress } | null = null
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
    const own = at(`${host.includes(':') ? `[${host}]` : host}:${port}`)
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
