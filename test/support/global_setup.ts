import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { explain, FatalError } from '#src/lib/errors.ts'
import { obtainRedis, type SuiteRedis } from './redis_server.ts'
import { say } from './system_packages.ts'

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
