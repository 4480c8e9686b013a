import type { TestProject } from 'vitest/node'
import { obtainRedis } from './redis_server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the Redis that all tests share. */
    redisUrl: string
    /** Path of `redis-server`; null if it is not installed (Docker, REDIS_URL). */
    redisBinary: string | null
  }
}

/** Runs once before the tests; the returned function runs after them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const redis = await obtainRedis(process.env.REDIS_URL)
  project.provide('redisUrl', redis.url)
  project.provide('redisBinary', redis.binary)
  return () => redis.stop()
}
