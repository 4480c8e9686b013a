import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, type JobsOptions, Queue, type QueueOptions } from 'bullmq'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { publisher } from '#src/operate/extras.ts'
import type { Company } from './company_registry.ts'
import type { RedisClient } from './redis.ts'
import { connectRedis, type RedisConnection } from './redis.ts'

/**
 * `sync` brings the company up to date, and `publish` its latest snapshot to the object store; `maintain` removes expired
 * snapshots and measures the disk; `mail` sends the report.
 */
export type JobName = 'sync' | 'publish' | 'maintain' | 'mail'
export type JobData = {
  readonly company: string
  /** How often a worker could not take the job and put it back for another one. */
  readonly refusals?: number
  /** How often workers on hosts that may not run the company passed the job on. */
  readonly passes?: number
  /** Set for a tick that has already waited for its company's delay (see jitterMs). */
  readonly spread?: true
  /** How often a tick was left to the worker that ran the company last (see isLastRunElsewhere). */
  readonly offers?: number
}

/**
 * Two queues. A scheduler's job must not be the run itself: BullMQ creates the next one while the last still runs. So
 * `ticks` holds the schedulers' jobs, which end at once: each requests a run in `runs`. There a company has at most one
 * active run and one waiting.
 */
export type Queues = Pick<RedisConnection, 'problem' | 'note'> & {
  readonly ticks: Queue<JobData>
  readonly runs: Queue<JobData>
  /** Our own connection, for everything but jobs. */
  readonly redis: RedisClient
  /** The prefix of every key. */
  readonly prefix: string
  /** Ends at once if Redis is away. */
  close(): Promise<void>
}

const WEEK_SECONDS = 7 * 24 * 3600
/** What the board shows of jobs that ended: each company's runs are in its `sync_runs`, and Redis must soon stop growing. */
export const KEPT = {
  removeOnComplete: { count: 100, age: WEEK_SECONDS },
  removeOnFail: { count: 1000, age: WEEK_SECONDS },
} as const
/** Nobody reads events that are older than a wait for one. */
const EVENTS = { streams: { events: { maxLen: 1000 } } } as const
const CLOSE_WITHIN_MS = 2000

/** The address of Redis; the other settings have defaults. */
type RedisPlace = Pick<RedisSettings, 'url' | 'prefix'> & Partial<RedisSettings>

const RUN_OPTIONS: JobsOptions = {
  // The next tick retries a failed run, not the queue.
  attempts: 1,
  // The message of the failure is enough on the board; a stack trace does not help there.
  stackTraceLimit: 0,
  ...KEPT,
}

/** Connects, and reconnects until Redis is back. */
export function openQueues(settings: RedisPlace, log: Logger): Queues {
  const { prefix } = settings
  const { redis, problem, note, end } = connectRedis(
    { ca: null, sentinels: null, cluster: null, ...settings },
    log,
  )
  const options: QueueOptions = { connection: redis, prefix, skipVersionCheck: true, ...EVENTS }
  const ticks = new Queue<JobData>('ticks', options)
  const runs = new Queue<JobData>('runs', options)
  for (const queue of [ticks, runs]) queue.on('error', note)
  return {
    ticks,
    runs,
    redis,
    prefix,
    problem,
    note,
    async close() {
      end()
      // Makes commands that wait for Redis fail.
      if (redis.status !== 'ready') redis.disconnect()
      await Promise.race([Promise.allSettled([ticks.close(), runs.close()]), sleep(CLOSE_WITHIN_MS)])
      redis.disconnect()
    },
  }
}

/** Adds a run of this kind for the company, unless one already waits. If one is active, the new one follows it. */
export async function requestRun(
  { runs }: Pick<Queues, 'runs'>,
  name: JobName,
  company: string,
): Promise<Job<JobData>> {
  const id = `${name}-${company}`
  const deduplication = { id, keepLastIfActive: true }
  const add = async () => await runs.add(name, { company }, { ...RUN_OPTIONS, deduplication })
  const job = await add()
  // A script that Redis refuses halfway leaves a job in no list: no worker would take it, and it would block others.
  if ((await job.getState()) !== 'unknown') return job
  await runs.removeDeduplicationKey(id)
  return await add()
}

/** Adds a job that brings the latest snapshot to the object store, if it lacks one that it should have now. */
export async function requestPublish(queues: Pick<Queues, 'runs'>, company: Company): Promise<void> {
  const { slug, settings, paths } = company
  if (await publisher()?.isDue(settings, paths, new Date())) await requestRun(queues, 'publish', slug)
}
