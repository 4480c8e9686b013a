import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, type JobsOptions, Queue, type QueueOptions } from 'bullmq'
import type { Redis } from 'ioredis'
import type { Logger } from 'pino'
import { REDIS_TIMEOUT_MS, type RedisSettings } from '#config/daemon.ts'
import { connectRedis, type RedisConnection } from './redis.ts'

/** What a job is about: `sync` brings the company up to date, `maintain` looks after its disk. */
export type JobName = 'sync' | 'maintain'
export type JobData = {
  readonly company: string
  /** How often a worker could not take it that another one may. */
  readonly refusals?: number
  /** Of a tick: it waited its company's share of a minute already. */
  readonly spread?: true
}

/**
 * Two queues. A scheduler's job must not be the run itself: BullMQ makes the next one while the last still
 * runs. So `ticks` holds the schedulers' jobs, which end at once: each asks for a run in `runs`, where a
 * company has one that is active and one that waits at most.
 */
export type Queues = Pick<RedisConnection, 'problem' | 'note'> & {
  readonly ticks: Queue<JobData>
  readonly runs: Queue<JobData>
  /** A connection of our own, for everything that is no job. */
  readonly redis: Redis
  /** In front of every key. */
  readonly prefix: string
  /** Ends at once where Redis is away. */
  close(): Promise<void>
}

/** Enough to look back a few days on the board, and no more memory of Redis than that. */
const KEPT_RUNS = { count: 1000, age: 7 * 24 * 3600 } as const
const CLOSE_WITHIN_MS = 2000

/** Where Redis is; how it is spoken to has defaults. */
export type RedisPlace = Pick<RedisSettings, 'url' | 'prefix'> & Partial<RedisSettings>

export const RUN_OPTIONS: JobsOptions = {
  // A run that failed is tried again by the next tick, not by the queue.
  attempts: 1,
  // The sentence that it fails with says it; where in the code it was is for nobody on the board.
  stackTraceLimit: 0,
  removeOnComplete: KEPT_RUNS,
  removeOnFail: KEPT_RUNS,
}

/** Connects; a Redis that is away is waited for. */
export function openQueues(settings: RedisPlace, log: Logger): Queues {
  const { prefix } = settings
  const { redis, problem, note, end } = connectRedis(
    { ca: null, timeoutMs: REDIS_TIMEOUT_MS, ...settings },
    log,
  )
  const options: QueueOptions = { connection: redis, prefix, skipVersionCheck: true }
  const ticks = new Queue<JobData>('ticks', options)
  const runs = new Queue<JobData>('runs', options)
  for (const queue of [ticks, runs]) queue.on('error', note)
  return {
    ...{ ticks, runs, redis, prefix, problem, note },
    async close() {
      end()
      // What waits for a Redis that is away fails with this.
      if (redis.status !== 'ready') redis.disconnect()
      await Promise.race([Promise.allSettled([ticks.close(), runs.close()]), sleep(CLOSE_WITHIN_MS)])
      redis.disconnect()
    },
  }
}

/** A company's run of this kind, unless one waits already; while one is active, another follows it. */
export async function requestRun(
  { runs }: Pick<Queues, 'runs'>,
  name: JobName,
  company: string,
): Promise<Job<JobData>> {
  const id = `${name}-${company}`
  const deduplication = { id, keepLastIfActive: true }
  const add = async () => await runs.add(name, { company }, { ...RUN_OPTIONS, deduplication })
  const job = await add()
  // A script that Redis refuses in its middle leaves a job in no list: nobody would take it, nor make room for another.
  if ((await job.getState()) !== 'unknown') return job
  await runs.removeDeduplicationKey(id)
  return await add()
}
