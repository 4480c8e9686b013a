import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { messageOf, systemCode } from '#src/errors.ts'
import { dockerWorks, freePort, startRedisContainer, startRedisProcess } from './redis_process.ts'

/** Valkey, where it has taken Redis's place, speaks the same protocol. */
const BINARIES = ['redis-server', 'valkey-server']
const PING_TIMEOUT_MS = 5000
const INSTALL_TIMEOUT_MS = 300_000

type Tool = { readonly command: string; readonly args: readonly string[] }
type PackageManager = {
  readonly command: string
  readonly install: readonly string[]
  /** Fetches the list of packages, where an installation does not do so itself. */
  readonly update?: readonly string[]
  /** Its installation is the user's own: it refuses to be run as root. */
  readonly asUser?: true
}

const PACKAGE_MANAGERS: readonly PackageManager[] = [
  {
    command: 'apt-get',
    install: ['install', '-y', '--no-install-recommends', 'redis-server'],
    update: ['update'],
  },
  { command: 'dnf', install: ['install', '-y', 'redis'] },
  { command: 'apk', install: ['add', '--no-cache', 'redis'] },
  { command: 'brew', install: ['install', 'redis'], asUser: true },
]

/** The Redis of a run of the tests. */
export type SuiteRedis = {
  readonly url: string
  /** The path of `redis-server`, for tests that stop and start one of their own; null where there is none. */
  readonly binary: string | null
  stop(): Promise<void>
}

/**
 * A Redis for the tests: the one of `url` if that is given; else one of their own on a free port, from the
 * machine's redis-server, a Docker engine, or a redis-server that it installs. What else runs on the machine,
 * such as a system's own Redis on 6379, is not touched.
 * @throws Error in one sentence, when there is no way to a Redis.
 */
export async function obtainRedis(url: string | undefined): Promise<SuiteRedis> {
  const found = await findOnPath(BINARIES)
  if (url) {
    await checkAnswers(url)
    say(`The tests use the Redis of REDIS_URL (${withoutPassword(url)}).`)
    return { url, binary: found, stop: async () => {} }
  }
  if (found) return await ownServer(found)
  if (await dockerWorks()) return await ownContainer()
  return await ownServer(await installRedis())
}

async function ownServer(binary: string): Promise<SuiteRedis> {
  const port = await freePort()
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-test-redis-'))
  const server = await startRedisProcess({ binary, port, directory, removeDirectory: true })
  return { url: `redis://127.0.0.1:${port}`, binary, stop: () => server.kill() }
}

async function ownContainer(): Promise<SuiteRedis> {
  const port = await freePort()
  say('Redis is not installed: running it with docker run redis:7-alpine.')
  const server = await startRedisContainer(port)
  return { url: `redis://127.0.0.1:${port}`, binary: null, stop: () => server.kill() }
}

async function checkAnswers(url: string): Promise<void> {
  const redis = new Redis(url, {
    ...{ lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: null },
    connectTimeout: PING_TIMEOUT_MS,
  })
  let problem: unknown
  redis.on('error', error => {
    problem ??= error
  })
  try {
    await redis.connect()
    await redis.ping()
  } catch (error) {
    const why = systemCode(problem ?? error) ?? messageOf(problem ?? error)
    throw new Error(
      `The Redis of REDIS_URL (${withoutPassword(url)}) does not answer: ${why}. Start it, or unset REDIS_URL and the tests start one of their own.`,
    )
  } finally {
    redis.disconnect()
  }
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/]*@/, '//')
}

async function findOnPath(names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    for (const directory of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
      const path = join(directory, name)
      const runs = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
      if (runs) return path
    }
  }
  return null
}

/** Installs redis-server with the system's package manager, and gives its path. */
async function installRedis(): Promise<string> {
  const problem = await tryInstall()
  const binary = problem === null ? await findOnPath(BINARIES) : null
  if (binary) return binary
  throw new Error(
    `The tests need Redis, and ${problem ?? 'no redis-server was there after its installation'}. Install redis-server, start Docker, or set REDIS_URL to a running one.`,
  )
}

/** Null when it went well, else why not. */
async function tryInstall(): Promise<string | null> {
  for (const manager of PACKAGE_MANAGERS) {
    if (!(await findOnPath([manager.command]))) continue
    const prefix = manager.asUser ? [] : await asRoot()
    if (!prefix) return `${manager.command} needs root (sudo asks for a password here)`
    const install = command(prefix, manager.command, manager.install)
    say(`Redis is not installed: installing it with ${[install.command, ...install.args].join(' ')}.`)
    const problem = await run(install)
    if (problem === null || !manager.update) return problem
    await run(command(prefix, manager.command, manager.update))
    return await run(install)
  }
  return 'there is neither redis-server, nor a Docker engine, nor a package manager known here'
}

/** What stands before a command that root must run; null when this user cannot. */
async function asRoot(): Promise<string[] | null> {
  if (process.getuid?.() === 0) return []
  return (await run({ command: 'sudo', args: ['-n', 'true'] })) === null ? ['sudo', '-n'] : null
}

function command(prefix: readonly string[], name: string, args: readonly string[]): Tool {
  const [first = name, ...rest] = [...prefix, name, ...args]
  return { command: first, args: rest }
}

async function run({ command, args }: Tool): Promise<string | null> {
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    await promisify(execFile)(command, args, { env, timeout: INSTALL_TIMEOUT_MS, maxBuffer: 64 << 20 })
    return null
  } catch (error) {
    const said = String((error as { stderr?: unknown }).stderr ?? '').trim()
    return `${command} failed (${said.split('\n').at(-1) || messageOf(error)})`
  }
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}
