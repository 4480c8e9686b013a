import { readFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { freePort } from '#tools/redis_process.ts'
import { until } from './daemon.ts'
import { type OwnRedis, startOwnRedis } from './redis.ts'
import { type Authority, onlyTls } from './redis_states.ts'

/** A master that does not answer for this long is replaced by its replica. */
const NODE_TIMEOUT_MS = 1000
const SLOTS = 16_384
/** A node that hangs does not answer at all. */
const ANSWER_WITHIN_MS = 1000

type Node = OwnRedis & { readonly bus: string }

/** Three masters, and a replica of the one that has the keys of a test. */
export type OwnCluster = {
  /** The addresses of all nodes, as REDIS_URL has them. */
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
  const start = () => startNode(args, authority)
  const nodes = await Promise.all([start(), start(), start(), start()])
  const ask: Ask = (node, use) => askNode(node.url, authority, use)
  const pair = await form(nodes as [Node, Node, Node, Node], tag, ask)
  const infos = () =>
    Promise.all(pair.map(node => ask(node, client => client.info('replication')).catch(() => '')))
  const replicated = async () => {
    const isUp = async () => (await infos()).some(info => info.includes('master_link_status:up'))
    await until(isUp, { what: 'a replica' })
  }
  const findMaster = async () => pair[(await infos()).findIndex(info => info.includes('role:master'))]
  await replicated()
  return {
    addresses: nodes.map(({ url }) => new URL(url).host).join(','),
    nodes,
    master: () => until(findMaster, { what: 'a master' }),
    replicated,
  }
}

async function startNode(args: readonly string[], authority: Authority | null): Promise<Node> {
  // Instead of the one 10,000 above the other, which systems use for outgoing connections.
  const bus = String(await freePort())
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)]
  const among = ['--tls-cluster', 'yes', '--tls-replication', 'yes']
  const encrypted = (port: number) =>
    authority === null
      ? []
      : [...onlyTls(authority, port), ...among, '--tls-ca-cert-file', authority.certificate]
  const all = (port: number) => [...settings, '--cluster-port', bus, ...encrypted(port), ...args]
  return { ...(await startOwnRedis({ args: all })), bus }
}

type Ask = <T>(node: OwnRedis, use: (client: Redis) => Promise<T>) => Promise<T>

/** Gives three nodes their slots, and the fourth the master of the tag's keys. @returns that master, and its replica. */
async function form(nodes: readonly [Node, Node, Node, Node], tag: string, ask: Ask): Promise<[Node, Node]> {
  const command = (node: Node, ...words: (string | number)[]) =>
    ask(node, client => client.call('CLUSTER', ...words))
  const [first, second, third, replica] = nodes
  const masters = [first, second, third]
  const bounds = [0, Math.floor(SLOTS / 3), Math.floor((2 * SLOTS) / 3), SLOTS] as const
  for (const [index, node] of masters.entries())
    await command(node, 'ADDSLOTSRANGE', bounds[index] as number, (bounds[index + 1] as number) - 1)
  const { hostname, port } = new URL(first.url)
  for (const node of [second, third, replica]) await command(node, 'MEET', hostname, port, first.bus)
  const isWhole = async (node: Node) =>
    /cluster_state:ok.*cluster_known_nodes:4/s.test(String(await command(node, 'INFO')))
  await until(async () => (await Promise.all(nodes.map(isWhole))).every(Boolean), { what: 'a whole cluster' })
  const slot = Number(await command(first, 'KEYSLOT', `{${tag}}`))
  const owner = masters.find((_, index) => slot < (bounds[index + 1] as number)) as Node
  await command(replica, 'REPLICATE', String(await command(owner, 'MYID')))
  return [owner, replica]
}

/** Without the patience of other clients: a node may be down, or hang. */
async function askNode<T>(
  url: string,
  authority: Authority | null,
  ask: (client: Redis) => Promise<T>,
): Promise<T> {
  const tls = authority === null ? {} : { tls: { ca: await readFile(authority.certificate) } }
  const options = { lazyConnect: true, retryStrategy: null, commandTimeout: ANSWER_WITHIN_MS }
  const client = new Redis(url, { ...options, ...tls })
  client.on('error', () => {})
  try {
    await client.connect()
    return await ask(client)
  } finally {
    client.disconnect()
  }
}
