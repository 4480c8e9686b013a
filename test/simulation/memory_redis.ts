import type { RedisClient } from '#jobs/queues/redis.ts'

/** As much of Redis as alerts and the states of hosts need, for one worker at a time: scripts are known by what they call. */
export class MemoryRedis {
  readonly status = 'ready'
  readonly #hashes = new Map<string, Map<string, string>>()
  readonly #keys = new Map<string, string>()

  /** For what takes a client. */
  get client(): RedisClient {
    return this as unknown as RedisClient
  }

  async hgetall(key: string): Promise<Record<string, string>> {
    return Object.fromEntries(this.#hash(key))
  }

  async hget(key: string, field: string): Promise<string | null> {
    return this.#hash(key).get(field) ?? null
  }

  async hmget(key: string, ...fields: string[]): Promise<(string | null)[]> {
    return fields.map(field => this.#hash(key).get(field) ?? null)
  }

  async hset(key: string, field: string, value: string): Promise<void> {
    this.#hash(key).set(field, value)
  }

  async hdel(key: string, ...fields: string[]): Promise<void> {
    for (const field of fields) this.#hash(key).delete(field)
  }

  async set(key: string, value: string): Promise<'OK' | null> {
    if (this.#keys.has(key)) return null
    this.#keys.set(key, value)
    return 'OK'
  }

  async eval(script: string, _: number, key: string, ...args: string[]): Promise<number> {
    if (script.includes('HSET')) return this.#replace(key, args as [string, string, string])
    return this.#keys.get(key) === args[0] && this.#keys.delete(key) ? 1 : 0
  }

  #replace(key: string, [field, before, after]: [string, string, string]): number {
    const hash = this.#hash(key)
    if ((hash.get(field) ?? '') !== before) return 0
    if (after === '') hash.delete(field)
    else hash.set(field, after)
    return 1
  }

  #hash(key: string): Map<string, string> {
    const known = this.#hashes.get(key) ?? new Map<string, string>()
    this.#hashes.set(key, known)
    return known
  }
}
