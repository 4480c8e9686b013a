import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { TestProject } from 'vitest/node'
import { explain, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { dockerWorks, freePort, startRedisContainer, startRedisProcess } from '#tools/redis_process.ts'
import { findOnPath, installPackages, mayRun, type Packages, REFUSED, say } from './system_packages.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the Redis that all tests share; null if there is none, because the user refused to install one. */
    redisUrl: string | null
    /** Path of `redis-server`; null if it is not installed (Docker, REDIS_URL). */
    redisBinary: string | null
    /** Directory for what tests share, until all have ended. Other users can enter it, but not list it. */
    runDirectory: string
  }
}

type Shared = {
  readonly redis: Promise<SuiteRedis | null>
  readonly directory: Promise<string>
  projects: number
}

/** The projects share them, but each loads its own copy of this module. */
const shared = globalThis as { editaisTests?: Shared }

/** Runs once per project before its tests; the returned function runs after those of all projects. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.editaisTests ??= { redis: obtain(), directory: makeDirectory(), projects: 0 }
  const { editaisTests: suite } = shared
  suite.projects += 1
  const redis = await suite.redis
  project.provide('redisUrl', redis?.url ?? null)
  project.provide('redisBinary', redis?.binary ?? null)
  const directory = await suite.directory
  project.provide('runDirectory', directory)
  return async () => {
    suite.projects -= 1
    if (suite.projects > 0) return
    delete shared.editaisTests
    await redis?.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-test-run-'))
  await chmod(directory, 0o711)
  return directory
}

async function obtain(): Promise<SuiteRedis | null> {
  const redis = await obtainRedis(process.env.REDIS_URL).catch(endPlainly)
  if (redis === null) say('Without Redis, the tests that need it are skipped; the last lines count them.')
  return redis
}

/** Vitest would print a stack trace for a mistake that the user can correct. No test has begun yet. */
function endPlainly(error: unknown): never {
  if (!(error instanceof FatalError)) throw error
  const { message, exitCode } = explain(error)
  say(message)
  process.exit(exitCode)
}

/** Valkey replaces Redis on some systems and speaks the same protocol. */
const BINARIES = ['redis-server', 'valkey-server']
const PING_TIMEOUT_MS = 5000

const PACKAGES: Packages = {
  'apt-get': ['redis-server'],
  dnf: ['redis'],
  apk: ['redis'],
  brew: ['redis'],
}

/** The Redis of a test run. */
type SuiteRedis = {
  readonly url: string
  /** The path of `redis-server`, for tests that stop and start their own; null if it is not installed. */
  readonly binary: string | null
  stop(): Promise<void>
}

/**
 * A Redis for the tests: the one at `url` if given; else their own on a free port, from the machine's redis-server,
 * Docker, or a redis-server that it installs; on a terminal it asks before the last two. Anything else on the machine,
 * such as a system's Redis on 6379, is not touched.
 * @returns null if the user refused.
 * @throws FatalError if no Redis is available.
 */
async function obtainRedis(url: string | undefined): Promise<SuiteRedis | null> {
  const found = await findOnPath(BINARIES)
  if (url) {
    await checkAnswers(url)
    say(`The tests use the Redis at REDIS_URL (${withoutPassword(url)}).`)
    return { url, binary: found, stop: async () => {} }
  }
  if (found) return await ownServer(found)
  if (await dockerWorks()) return await ownContainer()
  const installed = await installRedis()
  return installed === null ? null : await ownServer(installed)
}

async function ownServer(binary: string): Promise<SuiteRedis> {
  const port = await freePort()
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-test-redis-'))
  const server = await startRedisProcess({ binary, port, directory, removeDirectory: true })
  return { url: `redis://127.0.0.1:${port}`, binary, stop: () => server.kill() }
}

async function ownContainer(): Promise<SuiteRedis | null> {
  if (!(await mayRun('Redis', 'docker run redis:7-alpine'))) return null
  const port = await freePort()
  const server = await startRedisContainer(port)
  return { url: `redis://127.0.0.1:${port}`, binary: null, stop: () => server.kill() }
}

async function checkAnswers(url: string): Promise<void> {
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
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
    const why = findSystemCode(problem ?? error) ?? getMessage(problem ?? error)
    throw new FatalError(
      `The Redis at REDIS_URL (${withoutPassword(url)}) does not answer: ${why}. Start it, or unset REDIS_URL: the tests then start their own.`,
    )
  } finally {
    redis.disconnect()
  }
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/]*@/, '//')
}

/** Installs redis-server with the system's package manager. Returns its path; null if the user refused. */
async function installRedis(): Promise<string | null> {
  const problem = await installPackages('Redis', PACKAGES)
  if (problem === REFUSED) return null
  const binary = problem === null ? await findOnPath(BINARIES) : null
  if (binary) return binary
  throw new FatalError(
    `The tests need Redis, but ${problem ?? 'redis-server is not on PATH after its installation'}. Install redis-server, start Docker, or set REDIS_URL to a running one.`,
  )
}
