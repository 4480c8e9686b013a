import { type Job, type JobsOptions, Queue, type QueueOptions } from 'bullmq'
import { Redis } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { messageOf, systemCode } from '#src/errors.ts'

/** What a job is about: `sync` brings the company up to date, `maintain` looks after its disk. */
export type JobName = 'sync' | 'maintain'
export type JobData = { readonly company: string }

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
  close(): Promise<void>
}

/** Enough to look back a few days on the board, and no more memory of Redis than that. */
const KEPT_RUNS = { count: 1000, age: 7 * 24 * 3600 } as const
/** Between two tries to reach a Redis that is away. */
const MAX_RECONNECT_MS = 2000

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
  const redis = connect(url, log)
  const options: QueueOptions = { connection: redis, prefix, skipVersionCheck: true }
  const ticks = new Queue<JobData>('ticks', options)
  const runs = new Queue<JobData>('runs', options)
  for (const queue of [ticks, runs]) queue.on('error', error => tellError(log, error))
  return {
    ticks,
    runs,
    redis,
    async close() {
      await Promise.all([ticks.close(), runs.close()])
      redis.disconnect()
    },
  }
}

function connect(url: string, log: Logger): Redis {
  // Commands wait for Redis to come back instead of failing, as BullMQ's workers demand.
  const redis = new Redis(url, {
    maxRetriesPerRequest: null,
    retryStrategy: tries => Math.min(tries * 100, MAX_RECONNECT_MS),
  })
  let away = false
  redis.on('error', error => {
    if (!away) {
      log.error(
        `Redis at ${hostOf(url)} does not answer (${systemCode(error) ?? messageOf(error)}). Start it, or set REDIS_URL. Trying again until it does.`,
      )
    }
    away = true
  })
  redis.on('ready', () => {
    if (away) log.info('Redis answers again.')
    away = false
  })
  return redis
}

/** Without user and password. */
export function hostOf(url: string): string {
  return new URL(url).host
}

/** Errors of BullMQ's own connections are the same ones, many times over. */
export function tellError(log: Logger, error: unknown): void {
  const ofConnection =
    /^E[A-Z]+$|^NR_CLOSED$/.test(systemCode(error) ?? '') || /Connection is closed/.test(messageOf(error))
  if (!ofConnection) log.warn(`The queue: ${messageOf(error)}`)
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
