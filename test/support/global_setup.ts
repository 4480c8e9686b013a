import type { TestProject } from 'vitest/node'
import { obtainRedis } from './redis_server.ts'
import { say } from './system_packages.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the Redis that all tests share; null if there is none, because the user refused to install one. */
    redisUrl: string | null
    /** Path of `redis-server`; null if it is not installed (Docker, REDIS_URL). */
    redisBinary: string | null
  }
}

/** Runs once before the tests; the returned function runs after them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const redis = await obtainRedis(process.env.REDIS_URL)
  project.provide('redisUrl', redis?.url ?? null)
  project.provide('redisBinary', redis?.binary ?? null)
  if (redis === null) say('Without Redis, the tests that need it are skipped; the last lines count them.')
  return async () => await redis?.stop()
}
