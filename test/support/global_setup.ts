import type { TestProject } from 'vitest/node'
import { obtainRedis } from './redis_server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the Redis that all tests share. */
    redisUrl: string
    /** Path of `redis-server`; null where the machine has none (Docker, REDIS_URL). */
    redisBinary: string | null
  }
}

/** Runs once before the tests; what it returns, after them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const redis = await obtainRedis(process.env.REDIS_URL)
  project.provide('redisUrl', redis.url)
  project.provide('redisBinary', redis.binary)
  return () => redis.stop()
}
