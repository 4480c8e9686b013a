import { readFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, tail, until } from '#test/support/daemon.ts'
import { isRun, NEVER, NO_LOOKS, nextRun, OFTEN, runsOf, untilIdle } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { runCommand, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, type OwnRedis, startOwnRedis, withClient } from '#test/support/redis.ts'
import { smallestRights } from '#test/support/redis_rights.ts'
import { type Authority, makeAuthority, onlyTls } from '#test/support/redis_states.ts'
import { startCompany } from '#test/support/synced.ts'
import { asked, expectTruth } from '#test/support/truth.ts'
import { freePort } from '#tools/redis_process.ts'
import type { LogLine } from '#tools/service_process.ts'

/** A master that does not answer for this long is replaced by its replica. */
const NODE_TIMEOUT_MS = 1000
const SLOTS = 16_384
/** A node that hangs does not answer at all. */
const ANSWER_WITHIN_MS = 1000

type Node = OwnRedis & { readonly bus: string }

/** Three masters, and a replica of the one that has the keys of a test. */
type OwnCluster = {
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
async function startOwnCluster(
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

vi.setConfig(DAEMON_TEST)

const TOTAL = 60
const ALL = Array.from({ length: TOTAL }, (_, index) => idOf(index + 1))
const PREFIX = 'clustered'
/** The worker must be back while it hangs. */
const HANG_SECONDS = 25
const WRONG = 'pw_wrong_77'
const USER_PASSWORD = 'pw_5d1c'
/** Longer than any failover here, and shorter than the lock of a job. */
const BACK_WITHIN_MS = 30_000
/** A tick that was lost with the cluster is made up for after 40 s; the lock of a job lasts longer. */
const MADE_UP = { withinMs: 70_000, settings: { JOB_LOCK_MS: '120000' } }

const settingsOf = ({ addresses }: OwnCluster) => ({
  REDIS_URL: `redis://${addresses}?cluster`,
  REDIS_PREFIX: PREFIX,
})
const isOfRedis = ({ msg }: LogLine) => /^Redis (at|rejected)/.test(msg)

async function keysOf({ nodes }: OwnCluster): Promise<string[][]> {
  return await Promise.all(nodes.map(({ url }) => withClient(url, client => client.keys('*'))))
}

test.skipIf(!canOwnRedis)('a worker runs on a cluster, and its keys are in one slot', async () => {
  const cluster = await startOwnCluster(PREFIX)
  const company = await startCompany(notices(1, 3), { SYNC_CRON: OFTEN, ...NO_LOOKS })
  const environment = { ...company.environment, ...settingsOf(cluster) }
  const daemon = await startDaemon(environment)
  // The first run is requested because it is due, the next ones by ticks.
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', unchanged: 3 })
  const enqueued = await runCommand(['sync', '--enqueue', '--full', '--json'], environment)
  expect(enqueued.code).toBe(0)
  expect(JSON.parse(enqueued.stdout)).toMatchObject({ status: 'ok', mode: 'full' })
  expect(enqueued.stderr).not.toContain('No worker is running')
  expect((await daemon.ask('/readyz')).status).toBe(200)
  expect((await daemon.ask('/companies/acme/sync', { method: 'POST' })).status).toBe(202)
  expect((await daemon.ask('/companies/acme/status')).status).toBe(200)
  const board = await daemon.ask('/queues/api/queues?activeQueue=runs&status=completed&page=1&jobsPerPage=10')
  expect(await board.json()).toMatchObject({
    queues: expect.arrayContaining([expect.objectContaining({ name: 'runs' })]),
  })
  expect(await (await daemon.ask('/metrics')).text()).toMatch(/^editais_redis_up 1$/m)

  const keys = (await keysOf(cluster)).filter(some => some.length > 0)
  // A master and its replica have the same.
  expect(keys).toHaveLength(2)
  expect(keys.flat().filter(key => !key.startsWith(`{${PREFIX}}:`))).toEqual([])
  for (const name of ['runs:meta', 'ticks:meta', 'asked', 'directories', 'requests:acme'])
    expect(keys.flat()).toContain(`{${PREFIX}}:${name}`)

  expect(await daemon.stop()).toBe(0)
  const again = await startDaemon({
    ...environment,
    REDIS_URL: `${cluster.nodes[1]?.url}?cluster`,
  })
  expect(await nextRun(again, 'acme', 0)).toMatchObject({ status: 'ok', unchanged: 3 })
  expect(await again.stop()).toBe(0)
  expect([...daemon.lines, ...again.lines].filter(({ level }) => level === 'error')).toEqual([])
})

test.skipIf(!canOwnRedis)('a worker goes on when the master with its keys dies during a run', async () => {
  const cluster = await startOwnCluster(PREFIX)
  const company = await startCompany(notices(1, TOTAL), { SYNC_CRON: NEVER, API_TIMEOUT_MS: '60000' })
  const environment = { ...company.environment, ...settingsOf(cluster) }
  const held = holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 })
  const daemon = await startDaemon(environment)
  await held.reached
  const first = await cluster.master()
  await cluster.replicated()
  await first.kill()
  held.release()
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: TOTAL })
  expect(await cluster.master()).not.toBe(first)
  await until(async () => (await daemon.ask('/readyz')).ok, {
    what: 'a ready worker',
    withinMs: BACK_WITHIN_MS,
  })
  await untilIdle(daemon)

  // And back again.
  await first.start()
  await cluster.replicated()
  await until(async () => (await daemon.ask('/readyz')).ok, { what: 'a ready worker' })
  company.world.update(ALL[0] as string, { edital: { objeto: 'Outro objeto' } })
  const again = holdAfter(company.sandbox, 'analysis', { passing: 0, waiting: 1 })
  const enqueued = startCommand(['sync', '--enqueue', '--json'], environment, await temporaryDirectory())
  await again.reached
  const second = await cluster.master()
  await second.kill()
  await daemon.waitFor(isOfRedis, { after: daemon.lines.length })
  again.release()
  const { code, stdout } = await enqueued.ended
  expect(code, tail(daemon.lines)).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ status: 'ok', loaded: 1 })
  await untilIdle(daemon)
  await expectTruth(company)
  expect(runsOf(daemon)).toHaveLength(2)
  expect(new Set(asked(company, 'analysis'))).toEqual(new Set(ALL))
  expect(asked(company, 'analysis')).toHaveLength(TOTAL + 1)
  expect(await daemon.stop()).toBe(0)
  expect(daemon.lines.filter(line => line.level === 'error' && !isOfRedis(line))).toEqual([])
})

test.skipIf(!canOwnRedis)('a worker goes on when the master with its keys hangs', async () => {
  const cluster = await startOwnCluster(PREFIX, { args: ['--enable-debug-command', 'yes'] })
  const company = await startCompany(notices(1, 3), { SYNC_CRON: OFTEN, ...NO_LOOKS })
  const environment = { ...company.environment, ...settingsOf(cluster) }
  const daemon = await startDaemon(environment)
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
  const first = await cluster.master()
  await cluster.replicated()
  let hangs = true
  const hung = withClient(first.url, client => client.call('DEBUG', 'SLEEP', HANG_SECONDS)).finally(() => {
    hangs = false
  })
  expect(
    await until(
      async () => {
        const master = await cluster.master()
        return master !== first && master
      },
      { what: 'a failover' },
    ),
  ).not.toBe(first)
  // Two, because the first may have been requested before.
  for (let runs = 0; runs < 2; runs += 1)
    expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok' })
  expect(hangs).toBe(true)
  await until(async () => (await daemon.ask('/readyz')).ok, { what: 'a ready worker' })
  expect(hangs).toBe(true)
  await hung
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok' })
  expect(await daemon.stop()).toBe(0)
  expect(daemon.lines.filter(line => line.level === 'error' && !isOfRedis(line))).toEqual([])
})

test.skipIf(!canOwnRedis)('runs continue after the whole cluster was down', async () => {
  const cluster = await startOwnCluster(PREFIX)
  const company = await startCompany(notices(1, TOTAL), {
    SYNC_CRON: OFTEN,
    ...NO_LOOKS,
    API_TIMEOUT_MS: '60000',
    ...MADE_UP.settings,
  })
  const environment = { ...company.environment, ...settingsOf(cluster) }
  const held = holdAfter(company.sandbox, 'analysis', { passing: TOTAL / 2 })
  const daemon = await startDaemon(environment)
  await held.reached
  await Promise.all(cluster.nodes.map(node => node.stop()))
  const line = await daemon.waitFor(({ msg }) => /^Redis at \S+ does not answer/.test(msg))
  expect(line.msg).toMatch(
    /^Redis at 127\.0\.0\.1:\d+ does not answer \(\w+\)\. Start it, or set REDIS_URL\./,
  )
  const ready = await daemon.ask('/readyz')
  expect(ready.status).toBe(503)
  held.release()
  await until(() => company.sandbox.requests.byId.size === TOTAL, { what: 'the end of the run' })
  await Promise.all(cluster.nodes.map(node => node.start()))
  const logs = () => tail(daemon.lines)
  await until(() => runsOf(daemon).length >= 3, {
    what: () => `more runs:\n${logs()}`,
    withinMs: MADE_UP.withinMs,
  })
  expect(runsOf(daemon)).toMatchObject([{ loaded: TOTAL }, { unchanged: TOTAL }, { unchanged: TOTAL }])
  expect(asked(company, 'analysis')).toEqual(ALL)
  expect(daemon.lines.filter(line => isRun(line)).length).toBeGreaterThanOrEqual(3)
  expect(await daemon.stop()).toBe(0)
  expect(daemon.lines.filter(line => line.level === 'error' && !isOfRedis(line))).toEqual([])
})

const ENQUEUE = ['sync', '--enqueue', '--wait', '20']

test.skipIf(!canOwnRedis)('a cluster that cannot be used is reported in one sentence', async () => {
  const company = await startCompany(notices(1, 1))
  const enqueue = async (settings: Record<string, string>) => {
    const { code, stderr } = await runCommand(ENQUEUE, { ...company.environment, ...settings })
    expect(code, stderr).toBe(1)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(stderr).not.toContain(WRONG)
    return stderr.trim()
  }
  expect(await enqueue({ REDIS_URL: 'redis://127.0.0.1:1,127.0.0.1:2?cluster' })).toMatch(
    /Redis at 127\.0\.0\.1:[12] does not answer \(ECONNREFUSED\)\. Start it, or set REDIS_URL\. No run was requested\.$/,
  )
  const single = await startOwnRedis()
  const { host } = new URL(single.url)
  expect(await enqueue({ REDIS_URL: `redis://${host}?cluster` })).toContain(
    `Redis at ${host} is not in cluster mode. Set REDIS_URL to its address alone, without ?cluster, then restart.`,
  )
  const secured = await startOwnRedis({ password: 'pw_right_18', args: ['--cluster-enabled', 'yes'] })
  const REDIS_URL = `redis://${new URL(secured.url).host}?cluster`
  expect(await enqueue({ REDIS_URL })).toMatch(/\(NOAUTH\): it requires a password/)
  expect(await enqueue({ REDIS_URL, REDIS_PASSWORD: WRONG })).toMatch(
    /\(WRONGPASS\): the password \(or the user in REDIS_URL\) is wrong/,
  )
  // A node that nobody gave a slot.
  expect(await enqueue({ REDIS_URL, REDIS_PASSWORD: 'pw_right_18' })).toMatch(
    /\(CLUSTERDOWN\): a part of the cluster has no master/,
  )
})

test.skipIf(!canOwnRedis)('a cluster with TLS, a private authority and a user with few rights', async () => {
  const authority = await makeAuthority()
  const other = await makeAuthority()
  const cluster = await startOwnCluster(PREFIX, {
    authority,
    args: ['--user', 'worker', 'on', `>${USER_PASSWORD}`, ...smallestRights(`{${PREFIX}}`)],
  })
  const company = await startCompany(notices(1, 3), { SYNC_CRON: NEVER })
  const environment = {
    ...company.environment,
    ...settingsOf(cluster),
    REDIS_URL: `rediss://worker@${cluster.addresses}?cluster`,
    REDIS_PASSWORD: USER_PASSWORD,
    REDIS_CA_FILE: authority.certificate,
  }
  const daemon = await startDaemon(environment)
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok', loaded: 3 })
  await untilIdle(daemon)
  const enqueued = await runCommand(ENQUEUE, environment)
  expect(enqueued).toMatchObject({ code: 0 })
  expect(enqueued.stderr).not.toContain('No worker is running')
  expect(await daemon.stop()).toBe(0)
  expect(daemon.lines.filter(({ level }) => level !== 'info')).toEqual([])

  const wrong = await runCommand(ENQUEUE, { ...environment, REDIS_CA_FILE: other.certificate })
  expect(wrong.code).toBe(1)
  expect(wrong.stderr).toMatch(
    /^The certificate of Redis at 127\.0\.0\.1:\d+ is not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\)\. Set REDIS_CA_FILE to .+ No run was requested\.\n$/,
  )
})
