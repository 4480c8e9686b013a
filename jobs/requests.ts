import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { JobResult } from './processors.ts'

/** A request to fetch every analysis of a company again; no run has it in the raw log yet. */
export type FullRequest = {
  readonly restart: boolean
  /** The text in Redis. A later request has another text, so it stays when this one is removed. */
  readonly text: string
}

/** Identifies a request of a company. */
export type RequestNumber = {
  /** Changes when numbers start again at 1: after a week without a request or a run, or after Redis lost its data. */
  readonly epoch: string
  readonly number: number
}

/** A request as it was stored. */
export type Asked = {
  readonly request: RequestNumber
  /** The request for `--full` as it is in Redis now, and the one that it replaced; empty if there was none. */
  readonly full: string
  readonly earlierFull: string
}

/** What a run must do. It covers every request that was made before it. */
export type Taken = {
  /** The last request that it covers. */
  readonly covers: RequestNumber
  readonly full: FullRequest | null
}

/** How the last run of a company ended; a run that was put back does not count. */
export type Answer = JobResult & { readonly covers: RequestNumber }

/**
 * Requests for runs, and the answers to them. The requests of a company are numbered, and a run covers those that were
 * made before it began. So a requester waits for an answer that covers its number, whichever job, worker or attempt
 * gives it. The numbers and the answer are in one Redis hash: neither outlives the other.
 *
 * A request for `--full` is stored separately: a job that is deduplicated loses its data. Once it is in the raw log,
 * later runs continue it on their own, so they cover it too.
 */
export type Requests = {
  ask(company: string, options: { readonly full: boolean; readonly restart: boolean }): Promise<Asked>
  /** Forgets what this request asked for, and no other one: no run could be requested for it. */
  withdraw(company: string, asked: Asked): Promise<void>
  /** What a run that begins now covers. */
  take(company: string): Promise<Taken>
  /** Removes this request once a run has stored it in the raw log. A later one stays. */
  begun(company: string, full: FullRequest): Promise<void>
  /** Stores the answer. Drops one to requests of an earlier epoch: no requester waits for it. */
  answer(company: string, answer: Answer): Promise<void>
  /** The answer to this request, null until there is one, `forgotten` if Redis lost its data. */
  look(company: string, request: RequestNumber): Promise<Answer | 'forgotten' | null>
}

/** As long as the board keeps jobs; no requester waits longer. */
const KEPT_MS = 7 * 24 * 3600_000

const ASK = `
  redis.call('HSETNX', KEYS[1], 'epoch', ARGV[4])
  local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  local full, earlier = '', ''
  if ARGV[3] ~= '' then
    local request = cjson.decode(ARGV[3])
    earlier = redis.call('HGET', KEYS[2], ARGV[2]) or ''
    if earlier ~= '' and cjson.decode(earlier).restart then request.restart = true end
    full = cjson.encode(request)
    redis.call('HSET', KEYS[2], ARGV[2], full)
  end
  return { redis.call('HGET', KEYS[1], 'epoch'), number, full, earlier }`
const WITHDRAW = `
  if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
  if ARGV[3] == '' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
  return redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])`
const TAKE = `
  local epoch, number = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'number'))
  return { epoch or '', number or '0', redis.call('HGET', KEYS[2], ARGV[1]) or '' }`
const REMOVE_IF_SAME = `
  if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
  return 0`
const ANSWER = `
  if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[1], 'answer', ARGV[2])
  return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

export function openRequests(redis: Redis, prefix: string, now: () => Date): Requests {
  const fullKey = `${prefix}:full`
  const requestsKey = (company: string) => `${prefix}:requests:${company}`
  return {
    async ask(company, { full, restart }) {
      const request = full ? JSON.stringify({ id: randomUUID(), restart, at: now().toISOString() }) : ''
      const keys = [requestsKey(company), fullKey]
      const asked = await redis.eval(ASK, 2, ...keys, KEPT_MS, company, request, randomUUID())
      const [epoch, number, stored, earlierFull] = asked as [string, number, string, string]
      return { request: { epoch, number }, full: stored, earlierFull }
    },
    async withdraw(company, { full, earlierFull }) {
      if (full !== '') await redis.eval(WITHDRAW, 1, fullKey, company, full, earlierFull)
    },
    async take(company) {
      const taken = await redis.eval(TAKE, 2, requestsKey(company), fullKey, company)
      const [epoch, number, text] = taken as [string, string, string]
      const full = text === '' ? null : { ...JSON.parse(text), text }
      return { covers: { epoch, number: Number(number) }, full }
    },
    async begun(company, { text }) {
      await redis.eval(REMOVE_IF_SAME, 1, fullKey, company, text)
    },
    async answer(company, answer) {
      const { epoch } = answer.covers
      await redis.eval(ANSWER, 1, requestsKey(company), epoch, JSON.stringify(answer), KEPT_MS)
    },
    async look(company, request) {
      const [epoch, last, text] = await redis.hmget(requestsKey(company), 'epoch', 'number', 'answer')
      // The same epoch with fewer numbers: Redis lost its last second of writes.
      if (epoch !== request.epoch || Number(last) < request.number) return 'forgotten'
      const answer = text ? (JSON.parse(text) as Answer) : null
      return answer && doesCover(answer.covers, request) ? answer : null
    },
  }
}

export function doesCover(covers: RequestNumber, { epoch, number }: RequestNumber): boolean {
  return covers.epoch === epoch && covers.number >= number
}
