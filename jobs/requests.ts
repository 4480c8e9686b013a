import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { JobResult } from './processors.ts'

/** Every analysis of a company is to be fetched again, and no run has that in its raw log yet. */
export type FullRequest = {
  readonly restart: boolean
  /** As it stands in Redis: a later request, which is another text, stays when this one is removed. */
  readonly text: string
}

/** What a run sets out to do: it covers every request that was made before it. */
export type Taken = {
  /** The number of the last request that it covers; 0 if there was none. */
  readonly covers: number
  readonly full: FullRequest | null
}

/** How the last run of a company ended that was no longer put back. */
export type Answer = JobResult & { readonly covers: number }

/**
 * Who asks for a run and waits for its end. The requests of a company are numbered; a run covers those that were made
 * before it began, so the asker waits for an answer that covers its number, whichever job, worker or attempt gives it.
 *
 * A request for `--full` is state of its own: a job that is deduplicated loses its data. Once it is in the raw
 * log, later runs work on it without being asked to, so they cover it too.
 */
export type Requests = {
  /** @returns the number of this request. */
  ask(company: string, options: { readonly full: boolean; readonly restart: boolean }): Promise<number>
  /** What a run that begins now covers. */
  take(company: string): Promise<Taken>
  /** A run has made this one durable in the raw log. A later one stays. */
  begun(company: string, full: FullRequest): Promise<void>
  answer(company: string, answer: Answer): Promise<void>
  /** The answer to this request, null until there is one, `forgotten` if Redis lost its data. */
  look(company: string, number: number): Promise<Answer | 'forgotten' | null>
}

/** For as long as the board keeps jobs; nobody waits longer. */
const KEPT_MS = 7 * 24 * 3600_000

const ASK = `
  local number = redis.call('INCR', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  if ARGV[3] ~= '' then
    local request = cjson.decode(ARGV[3])
    local earlier = redis.call('HGET', KEYS[2], ARGV[2])
    if earlier and cjson.decode(earlier).restart then request.restart = true end
    redis.call('HSET', KEYS[2], ARGV[2], cjson.encode(request))
  end
  return number`
const TAKE = `return { redis.call('GET', KEYS[1]) or '0', redis.call('HGET', KEYS[2], ARGV[1]) or '' }`
const REMOVE_IF_SAME = `
  if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
  return 0`

export function openRequests(redis: Redis, prefix: string, now: () => Date): Requests {
  const fullKey = `${prefix}:full`
  const numberKey = (company: string) => `${prefix}:asked-for:${company}`
  const answerKey = (company: string) => `${prefix}:answer:${company}`
  return {
    async ask(company, { full, restart }) {
      const request = full ? JSON.stringify({ id: randomUUID(), restart, at: now().toISOString() }) : ''
      return Number(await redis.eval(ASK, 2, numberKey(company), fullKey, KEPT_MS, company, request))
    },
    async take(company) {
      const taken = await redis.eval(TAKE, 2, numberKey(company), fullKey, company)
      const [number, text] = taken as [string, string]
      return { covers: Number(number), full: text === '' ? null : { ...JSON.parse(text), text } }
    },
    async begun(company, { text }) {
      await redis.eval(REMOVE_IF_SAME, 1, fullKey, company, text)
    },
    async answer(company, answer) {
      await redis.set(answerKey(company), JSON.stringify(answer), 'PX', KEPT_MS)
    },
    async look(company, number) {
      const [last, text] = await redis.mget(numberKey(company), answerKey(company))
      if (Number(last ?? 0) < number) return 'forgotten'
      const answer = text ? (JSON.parse(text) as Answer) : null
      return answer && answer.covers >= number ? answer : null
    },
  }
}
