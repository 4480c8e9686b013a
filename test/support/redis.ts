import { randomBytes } from 'node:crypto'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { Redis } from 'ioredis'
import { inject, onTestFinished, TestRunner } from 'vitest'
import { freePort, type RedisProcess, startRedisProcess } from '#tools/redis_process.ts'
import { temporaryDirectory } from './project.ts'

/** A key prefix of this test in the shared Redis; its keys are removed afterwards. Without a Redis, skips the test. */
export async function openRedis(): Promise<{ readonly url: string; readonly prefix: string }> {
  const url = inject('redisUrl')
  if (url === null) return TestRunner.getCurrentTest()?.context.skip('needs Redis') as never
  const prefix = `test-${randomBytes(6).toString('hex')}`
  onTestFinished(() => withClient(url, client => deleteAll(client, prefix)))
  return { url, prefix }
}

/** Whether tests can start their own Redis; for `test.skipIf(!canOwnRedis)`. */
export const canOwnRedis = inject('redisBinary') !== null

/** A test's own Redis, which it may stop and restart. */
export type OwnRedis = {
  readonly url: string
  /** Stops it properly (SIGTERM): it saves and closes. */
  stop(): Promise<void>
  /** Kills it like a crash (SIGKILL): up to a second of writes may be lost. */
  kill(): Promise<void>
  /** Restarts it on the same port, with the data in its append-only file. */
  start(): Promise<void>
}

/** Starts an empty Redis for the duration of the test; its `url` does not contain the password. */
export async function startOwnRedis({
  password,
  args = [],
}: {
  password?: string
  args?: readonly string[] | ((port: number) => readonly string[])
} = {}): Promise<OwnRedis> {
  const binary = inject('redisBinary')
  if (binary === null) throw new Error('redis-server is not installed. Use test.skipIf(!canOwnRedis).')
  const { options, process } = await startOnFreePort({
    binary,
    directory: await temporaryDirectory(),
    ...(password === undefined ? {} : { password }),
    args,
  })
  let running: RedisProcess | null = process
  const end = async (how: 'stop' | 'kill') => {
    const ending = running
    running = null
    await ending?.[how]()
  }
  onTestFinished(() => end('kill'))
  return {
    url: `redis://127.0.0.1:${options.port}`,
    stop: () => end('stop'),
    kill: () => end('kill'),
    start: async () => {
      running ??= await startRedisProcess(options)
    },
  }
}

type RedisOptions = Parameters<typeof startRedisProcess>[0]
type OnAnyPort = Omit<RedisOptions, 'port' | 'args'> & {
  readonly args: readonly string[] | ((port: number) => readonly string[])
}

/** Another program may take the port meanwhile, or the one 10,000 above it, which a cluster also needs. */
async function startOnFreePort({ args, ...given }: OnAnyPort) {
  for (let tries = 1; ; tries += 1) {
    const port = await freePort()
    const options: RedisOptions = { ...given, port, args: typeof args === 'function' ? args(port) : args }
    try {
      return { options, process: await startRedisProcess(options) }
    } catch (error) {
      // Its output has many lines.
      if (tries === 3 || !/Address already in use/.test(String(error))) throw error
    }
  }
}

/**
 * All keys with this prefix and their values (string, hash, list, set, sorted set, stream) as text: one line per
 * value, `<key> <type> <value as JSON>`, in the order of the keys.
 */
export async function scanAll(url: string, prefix: string): Promise<string> {
  return await withClient(url, async client => {
    const lines: string[] = []
    for (const key of await keysOf(client, prefix)) {
      const type = await client.type(key)
      for (const value of await valuesOf(client, key, type))
        lines.push(`${key} ${type} ${JSON.stringify(value)}`)
    }
    return lines.join('\n')
  })
}

async function valuesOf(client: Redis, key: string, type: string): Promise<readonly unknown[]> {
  switch (type) {
    case 'string':
      return [await client.get(key)]
    case 'hash':
      return Object.entries(await client.hgetall(key))
    case 'list':
      return await client.lrange(key, 0, -1)
    case 'set':
      return (await client.smembers(key)).sort()
    case 'zset':
      return pairs(await client.zrange(key, 0, '-1', 'WITHSCORES'))
    case 'stream':
      return await client.xrange(key, '-', '+')
    case 'none': // Expired after it was listed.
      return []
    default:
      throw new TypeError(`the key ${key} has an unsupported type: ${type}`)
  }
}

function pairs(flat: readonly string[]): [string | undefined, string | undefined][] {
  return flat.flatMap((value, index) => (index % 2 === 0 ? [[value, flat[index + 1]]] : []))
}

async function keysOf(client: Redis, prefix: string): Promise<string[]> {
  const keys = new Set<string>()
  const pattern = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}*`
  for await (const some of client.scanStream({ match: pattern, count: 1000 })) {
    for (const key of some as string[]) keys.add(key)
  }
  return [...keys].sort()
}

async function deleteAll(client: Redis, prefix: string): Promise<void> {
  const keys = await keysOf(client, prefix)
  if (keys.length > 0) await client.unlink(keys)
}

/** Runs a function with its own connection, which is closed afterwards. */
export async function withClient<T>(url: string, use: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(url)
  try {
    return await use(client)
  } finally {
    client.disconnect()
  }
}

/** A proxy to a Redis that can fail in several ways. */
export type RedisProxy = {
  readonly url: string
  /** Resets all connections and refuses new ones. */
  cut(): Promise<void>
  /** Forwards nothing and keeps everything for `mend`, like a stopped Redis. */
  freeze(): void
  /** Silently drops everything; the current connections stay open and dead, even after `mend`. */
  swallow(): void
  /** Forwards to another address; the current connections are reset. */
  leadTo(url: string): void
  /** Works as at the start, except for dead connections. */
  mend(): Promise<void>
}

/** Listens on a port of 127.0.0.1 and forwards everything to the Redis of `url`, until the test ends. */
export async function startProxy(url: string): Promise<RedisProxy> {
  let target = new URL(url)
  let state: 'open' | 'frozen' | 'swallowing' = 'open'
  const port = await freePort()
  const sockets = new Set<Socket>()
  const join = (from: Socket, to: Socket) => {
    sockets.add(from)
    if (state === 'open') from.setNoDelay(true).pipe(to)
    from.on('error', () => {})
    from.once('close', () => {
      sockets.delete(from)
      to.destroy()
    })
    return { from, to }
  }
  let joined: { readonly from: Socket; readonly to: Socket }[] = []
  const onConnection = (client: Socket) => {
    if (state === 'swallowing') {
      client.on('error', () => {}).resume()
      sockets.add(client)
      return
    }
    const redis = connect(Number(target.port || 6379), target.hostname)
    joined.push(join(client, redis), join(redis, client))
  }
  let server: Server | null = await listen(port, onConnection)
  const reset = () => {
    for (const socket of sockets) socket.resetAndDestroy()
    joined = []
  }
  const cut = async () => {
    const closing = server
    server = null
    const closed = new Promise<void>(resolve => (closing ? closing.close(() => resolve()) : resolve()))
    reset()
    await closed
  }
  onTestFinished(cut)
  const through = new URL(url)
  through.host = `127.0.0.1:${port}`
  return {
    url: through.href,
    cut,
    freeze() {
      state = 'frozen'
      for (const { from, to } of joined) from.unpipe(to).pause()
    },
    swallow() {
      state = 'swallowing'
      for (const { from, to } of joined) from.unpipe(to).resume()
      joined = []
    },
    leadTo(elsewhere) {
      target = new URL(elsewhere)
      reset()
    },
    mend: async () => {
      const before = target
      target = new URL(url)
      if (before.host !== target.host) reset()
      if (state === 'frozen') for (const { from, to } of joined) from.pipe(to)
      state = 'open'
      server ??= await listen(port, onConnection)
    },
  }
}

function listen(port: number, onConnection: (client: Socket) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(onConnection)
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}
