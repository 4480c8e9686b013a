import { readFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'
import { until } from './daemon.ts'
import { type OwnRedis, startOwnRedis } from './redis.ts'
import { type Authority, onlyTls } from './redis_states.ts'

/** A master that does not answer for this long is replaced by its replica. */
const NODE_TIMEOUT_MS = 1000
const SLOTS = 16_384

/** Three masters, and a replica of the one that has the keys of a test. */
export type OwnCluster = {
  /** For REDIS_CLUSTER: the addresses of all nodes. */
  readonly addresses: string
  readonly nodes: readonly OwnRedis[]
  /** The node that has the keys now. */
  master(): Promise<OwnRedis>
  /** Resolves when a replica is ready to take over. */
  replicated(): Promise<void>
}

/**
 * Starts a cluster for the duration of the test.
 * @param tag what the keys have between braces.
 */
export async function startOwnCluster(
  tag: string,
  { args = [], authority = null }: { args?: readonly string[]; authority?: Authority | null } = {},
): Promise<OwnCluster> {
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)]
  const encrypted = (port: number) =>
    authority === null
      ? []
      : [
          ...onlyTls(authority, port),
          ...[
            '--tls-ca-cert-file',
            authority.certificate,
            '--tls-cluster',
            'yes',
            '--tls-replication',
            'yes',
          ],
        ]
  const start = () => startOwnRedis({ args: port => [...settings, ...encrypted(port), ...args] })
  const nodes = await Promise.all([start(), start(), start(), start()])
  onTestFinished(() => Promise.all(nodes.map(node => node.kill())).then(() => {}))
  const ask = (node: OwnRedis, ...words: string[]) =>
    askNode(node.url, authority, client => client.call('CLUSTER', ...words))
  const [first, second, third, replica] = nodes as [OwnRedis, OwnRedis, OwnRedis, OwnRedis]
  const masters = [first, second, third]
  const bounds = masters.map((_, index) => Math.floor((SLOTS * index) / masters.length))
  await Promise.all(
    masters.map((node, index) =>
      ask(node, 'ADDSLOTSRANGE', String(bounds[index]), String((bounds[index + 1] ?? SLOTS) - 1)),
    ),
  )
  const { hostname, port } = new URL(first.url)
  for (const node of [second, third, replica]) await ask(node, 'MEET', hostname, port)
  const isWhole = async (node: OwnRedis) => {
    const info = String(await ask(node, 'INFO'))
    return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:4')
  }
  await until(async () => (await Promise.all(nodes.map(isWhole))).every(Boolean), { what: 'a whole cluster' })
  const slot = Number(await ask(first, 'KEYSLOT', `{${tag}}`))
  const owner = masters[bounds.findLastIndex(bound => bound <= slot)] as OwnRedis
  await ask(replica, 'REPLICATE', String(await ask(owner, 'MYID')))
  const replication = (node: OwnRedis) =>
    askNode(node.url, authority, client => client.info('replication')).catch(() => '')
  const pair = [owner, replica]
  const cluster: OwnCluster = {
    addresses: nodes.map(({ url }) => new URL(url).host).join(','),
    nodes,
    master: () =>
      until(
        async () => {
          const infos = await Promise.all(pair.map(replication))
          return pair[infos.findIndex(info => info.includes('role:master'))]
        },
        { what: 'a master' },
      ),
    replicated: async () => {
      await until(
        async () =>
          (await Promise.all(pair.map(replication))).some(info => info.includes('master_link_status:up')),
        { what: 'a replica' },
      )
    },
  }
  await cluster.replicated()
  return cluster
}

/** Without the patience of other clients: a node may be down. */
async function askNode<T>(
  url: string,
  authority: Authority | null,
  ask: (client: Redis) => Promise<T>,
): Promise<T> {
  const tls = authority === null ? {} : { tls: { ca: await readFile(authority.certificate) } }
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null, ...tls })
  client.on('error', () => {})
  try {
    await client.connect()
    return await ask(client)
  } finally {
    client.disconnect()
  }
}
