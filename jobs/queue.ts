import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, type JobsOptions, Queue, type QueueOptions } from 'bullmq'
import { Redis } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { messageOf, redisRefusal, systemCode } from '#src/errors.ts'

/** What a job is about: `sync` brings the company up to date, `maintain` looks after its disk. */
export type JobName = 'sync' | 'maintain'
export type JobData = {
  readonly company: string
  /** How often a worker could not take it that another one may. */
  readonly refusals?: number
}

/**
 * Two queues. A scheduler's job must not be the run itself: BullMQ makes the next one while the last still
 * runs. So `ticks` holds the schedulers' jobs, which end at once: each asks for a run in `runs`, where a
 * company has one that is active and one that waits at most.
 */
export type Queues = {
  readonly ticks: Queue<JobData>
  readonly runs: Queue<JobData>
  /** A connection of our own, for everything that is no job. */
  readonly redis: Redis
  /** In front of every key. */
  readonly prefix: string
  /** Why Redis refuses the connection, and what to do; null unless it does. */
  refusal(): string | null
  /** Ends at once where Redis is away. */
  close(): Promise<void>
}

/** Enough to look back a few days on the board, and no more memory of Redis than that. */
const KEPT_RUNS = { count: 1000, age: 7 * 24 * 3600 } as const
/** Between two tries to reach a Redis that is away. */
const MAX_RECONNECT_MS = 2000
/** How often the same error is told. */
const TELL_AGAIN_MS = 60_000
const CLOSE_WITHIN_MS = 2000

export const RUN_OPTIONS: JobsOptions = {
  // A run that failed is tried again by the next tick, not by the queue.
  attempts: 1,
  // The sentence that it fails with says it; where in the code it was is for nobody on the board.
  stackTraceLimit: 0,
  removeOnComplete: KEPT_RUNS,
  removeOnFail: KEPT_RUNS,
}

/** Connects; a Redis that is away is waited for, and told about once. */
export function openQueues({ url, prefix }: RedisSettings, log: Logger): Queues {
  const { redis, refusal } = connect(url, log)
  const options: QueueOptions = { connection: redis, prefix, skipVersionCheck: true }
  const ticks = new Queue<JobData>('ticks', options)
  const runs = new Queue<JobData>('runs', options)
  for (const queue of [ticks, runs]) queue.on('error', error => tellError(log, error))
  return {
    ticks,
    runs,
    ...{ redis, prefix, refusal },
    async close() {
      // What waits for a Redis that is away fails with this.
      if (redis.status !== 'ready') redis.disconnect()
      await Promise.race([Promise.allSettled([ticks.close(), runs.close()]), sleep(CLOSE_WITHIN_MS)])
      redis.disconnect()
    },
  }
}

function connect(url: string, log: Logger): Pick<Queues, 'redis' | 'refusal'> {
  // Commands wait for Redis to come back instead of failing, as BullMQ's workers demand.
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    retryStrategy: tries => Math.min(tries * 100, MAX_RECONNECT_MS),
    // After a failover the address may lead to another server: connect anew, and ask again.
    reconnectOnError: error => (error.message.startsWith('READONLY') ? 2 : false),
  })
  let away = false
  let refusal: string | null = null
  redis.on('error', error => {
    refusal = isRefusal(error) ? redisRefusal(messageOf(error)) : null
    if (refusal !== null) tellError(log, error)
    else if (!away) {
      log.error(
        `Redis at ${hostOf(url)} does not answer (${systemCode(error) ?? messageOf(error)}). Start it, or set REDIS_URL. Trying again until it does.`,
      )
    }
    away = true
  })
  redis.on('ready', () => {
    if (away) log.info('Redis answers again.')
    away = false
    refusal = null
  })
  return { redis, refusal: () => refusal }
}

/** Without user and password. */
export function hostOf(url: string): string {
  return new URL(url).host
}

/** When a message was told last; there are few different ones. */
const toldAtMs = new Map<string, number>()

/**
 * Errors of BullMQ's own connections are the same ones, many times over: those of a Redis that is away are
 * told by our own connection, and others once a minute.
 */
export function tellError(log: Logger, error: unknown): void {
  const code = systemCode(error) ?? ''
  const text = messageOf(error)
  if (/^E[A-Z]+$|^NR_CLOSED$/.test(code) || /Connection is closed/.test(text)) return
  const message = isRefusal(error) ? redisRefusal(text) : `The queue: ${text}`
  if (Date.now() - (toldAtMs.get(message) ?? 0) < TELL_AGAIN_MS) return
  toldAtMs.set(message, Date.now())
  log.error(message)
}

/** Redis answers, but with a no that the next try would hear as well. */
export function isRefusal(error: unknown): boolean {
  return /^(OOM|READONLY|NOAUTH|WRONGPASS|NOPERM|MISCONF|LOADING|MASTERDOWN|CLUSTERDOWN) /.test(
    messageOf(error),
  )
}

/** A company's run of this kind, unless one waits already; while one is active, another follows it. */
export async function requestRun(
  { runs }: Pick<Queues, 'runs'>,
  name: JobName,
  company: string,
): Promise<Job<JobData>> {
  const deduplication = { id: `${name}-${company}`, keepLastIfActive: true }
  return await runs.add(name, { company }, { ...RUN_OPTIONS, deduplication })
}
