import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

/** Somebody asked that every analysis of a company be fetched again. */
export type FullRequest = { readonly id: string; readonly restart: boolean; readonly at: string }

/**
 * The requests for `--full` that no run has taken on yet. They are state of their own: a job that is
 * deduplicated loses its data, and a request must survive that, and the worker that accepted it.
 */
export type FullRequests = {
  add(company: string, options: { restart: boolean }): Promise<FullRequest>
  get(company: string): Promise<FullRequest | null>
  /** A run has made this one durable in the raw log. A later one stays. */
  done(company: string, request: FullRequest): Promise<void>
}

const REMOVE_IF_SAME = `
  if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
  return 0`

export function fullRequests(redis: Redis, prefix: string, now: () => Date): FullRequests {
  const key = `${prefix}:full`
  async function get(company: string): Promise<FullRequest | null> {
    const text = await redis.hget(key, company)
    return text === null ? null : (JSON.parse(text) as FullRequest)
  }
  return {
    get,
    async add(company, { restart }) {
      const earlier = await get(company)
      // Two who ask before a run begins ask for the same one, and both follow it.
      const request = {
        id: earlier?.id ?? randomUUID(),
        restart: restart || (earlier?.restart ?? false),
        at: earlier?.at ?? now().toISOString(),
      }
      await redis.hset(key, company, JSON.stringify(request))
      return request
    },
    async done(company, request) {
      await redis.eval(REMOVE_IF_SAME, 1, key, company, JSON.stringify(request))
    },
  }
}
