import { randomUUID } from 'node:crypto'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import { explainRedisRefusal } from '#src/lib/redis_refusal.ts'
import { type JobResult, type Queues, requestRun } from './queue.ts'
import type { RedisClient } from './redis.ts'
import { isRefusal } from './redis_problem.ts'

/** The requests to fetch every analysis of a company again that no run has in the raw log yet; one run serves all. */
type FullRequests = {
  /** Whether one of them is to start over. */
  readonly restart: boolean
  /** Later requests have other ids, so they stay when these are removed. */
  readonly ids: readonly string[]
}

/** Identifies a request of a company. */
export type RequestNumber = {
  /** Changes when numbers start again at 1: after a week without a request or a run, or after Redis lost its data. */
  readonly epoch: string
  readonly number: number
}

/** A request as it was stored. */
export type StoredRequest = {
  readonly request: RequestNumber
  /** Identifies it among the requests for `--full`; null if it is not one of them. */
  readonly fullId: string | null
}

/** The work of a run. It covers every request that was made before it. */
export type Taken = {
  /** The last request that it covers. */
  readonly covers: RequestNumber
  readonly full: FullRequests | null
}

/** How the last run of a company ended; a run that was put back does not count. */
export type RequestOutcome = JobResult & { readonly covers: RequestNumber }

/**
 * Requests for runs, and the answers to them. The requests of a company are numbered, and a run covers those that were
 * made before it began. So a requester waits for an answer that covers its number, whichever job, worker or attempt
 * gives it. The numbers and the answer are in one Redis hash: neither outlives the other.
 *
 * Requests for `--full` are stored separately, each with its id: a job that is deduplicated loses its data. Once they
 * are in the raw log, later runs continue them on their own, so they cover them too.
 */
export type Requests = {
  ask(company: string, options: { readonly full: boolean; readonly restart: boolean }): Promise<StoredRequest>
  /** Removes this request for `--full`, and no other one: no run could be requested for it. */
  withdraw(company: string, asked: StoredRequest): Promise<void>
  /** Takes the requests that a run that begins now covers. */
  take(company: string): Promise<Taken>
  /** Removes these requests once a run has stored them in the raw log. Later ones stay. */
  begun(company: string, full: FullRequests): Promise<void>
  /** Stores the answer. Drops one to requests of an earlier epoch: no requester waits for it. */
  answer(company: string, answer: RequestOutcome): Promise<void>
  /** Returns the answer to this request, null until there is one, `forgotten` if Redis lost its data. */
  look(company: string, request: RequestNumber): Promise<RequestOutcome | 'forgotten' | null>
}

/** Answers are kept as long as the board keeps jobs; no requester waits longer. */
const KEPT_MS = 7 * 24 * 3600_000
/**
 * How many requests for `--full` of a company wait apart. Beyond, the oldest is merged into the next one, and can no
 * longer be withdrawn. By then, Redis has answered its requester.
 */
const MAX_APART = 100

const ASK = `
  redis.call('HSETNX', KEYS[1], 'epoch', ARGV[4])
  local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  if ARGV[3] ~= '' then
    local waiting = cjson.decode(redis.call('HGET', KEYS[2], ARGV[2]) or '[]')
    table.insert(waiting, cjson.decode(ARGV[3]))
    if #waiting > tonumber(ARGV[5]) then
      local oldest = table.remove(waiting, 1)
      waiting[1].restart = waiting[1].restart or oldest.restart
    end
    redis.call('HSET', KEYS[2], ARGV[2], cjson.encode(waiting))
  end
  return { redis.call('HGET', KEYS[1], 'epoch'), number }`
const TAKE = `
  local epoch, number = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'number'))
  return { epoch or '', number or '0', redis.call('HGET', KEYS[2], ARGV[1]) or '' }`
const REMOVE = `
  local removed, left = {}, {}
  for position = 2, #ARGV do removed[ARGV[position]] = true end
  for _, request in ipairs(cjson.decode(redis.call('HGET', KEYS[1], ARGV[1]) or '[]')) do
    if not removed[request.id] then table.insert(left, request) end
  end
  if #left == 0 then return redis.call('HDEL', KEYS[1], ARGV[1]) end
  return redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(left))`
const ANSWER = `
  if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[1], 'answer', ARGV[2])
  return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

export function openRequests(redis: RedisClient, prefix: string, now: () => Date): Requests {
  const fullKey = `${prefix}:full`
  const requestsKey = (company: string) => `${prefix}:requests:${company}`
  return {
    async ask(company, { full, restart }) {
      const fullId = full ? randomUUID() : null
      const request = full ? JSON.stringify({ id: fullId, restart, at: now().toISOString() }) : ''
      const keys = [requestsKey(company), fullKey]
      const asked = await redis.eval(ASK, 2, ...keys, KEPT_MS, company, request, randomUUID(), MAX_APART)
      const [epoch, number] = asked as [string, number]
      return { request: { epoch, number }, fullId }
    },
    async withdraw(company, { fullId }) {
      if (fullId !== null) await redis.eval(REMOVE, 1, fullKey, company, fullId)
    },
    async take(company) {
      const taken = await redis.eval(TAKE, 2, requestsKey(company), fullKey, company)
      const [epoch, number, text] = taken as [string, string, string]
      return { covers: { epoch, number: Number(number) }, full: text === '' ? null : together(text) }
    },
    async begun(company, { ids }) {
      await redis.eval(REMOVE, 1, fullKey, company, ...ids)
    },
    async answer(company, answer) {
      const { epoch } = answer.covers
      await redis.eval(ANSWER, 1, requestsKey(company), epoch, JSON.stringify(answer), KEPT_MS)
    },
    async look(company, request) {
      const [epoch, last, text] = await redis.hmget(requestsKey(company), 'epoch', 'number', 'answer')
      // The same epoch with fewer numbers: Redis lost its last second of writes.
      if (epoch !== request.epoch || Number(last) < request.number) return 'forgotten'
      const answer = text ? (JSON.parse(text) as RequestOutcome) : null
      return answer && doesCover(answer.covers, request) ? answer : null
    },
  }
}

function together(text: string): FullRequests {
  const waiting = JSON.parse(text) as readonly { readonly id: string; readonly restart: boolean }[]
  return { restart: waiting.some(({ restart }) => restart), ids: waiting.map(({ id }) => id) }
}

export function doesCover(covers: RequestNumber, { epoch, number }: RequestNumber): boolean {
  return covers.epoch === epoch && covers.number >= number
}

/** Redis refused the run. The message says what is left of the request. */
export class RefusedRunError extends FatalError {}

/**
 * Requests a run of the company; with `full`, one that fetches everything again.
 * @throws RefusedRunError if Redis refuses, and the other errors of Redis.
 */
export async function requestSync(
  { queues, requests }: { readonly queues: Pick<Queues, 'runs'>; readonly requests: Requests },
  company: string,
  options: { readonly full: boolean; readonly restart: boolean },
): Promise<{ readonly job: string; readonly request: RequestNumber }> {
  let outcome = 'No run was requested.'
  try {
    const asked = await requests.ask(company, options)
    try {
      const { id = '' } = await requestRun(queues, 'sync', company)
      return { job: id, request: asked.request }
    } catch (error) {
      // What was stored for this run would turn a later one into a full one.
      await requests.withdraw(company, asked).catch(() => {
        outcome = 'No run was requested, but the next one fetches everything again.'
      })
      throw error
    }
  } catch (error) {
    if (!isRefusal(error)) throw error
    throw new RefusedRunError(`${explainRedisRefusal(getMessage(error))} ${outcome}`)
  }
}
