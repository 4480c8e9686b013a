import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, type JobsOptions, Queue, type QueueOptions } from 'bullmq'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { RedisSettings } from '#config/daemon.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { PublishedFigures } from '#src/core/lake/publish.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import type { Cause, ExitCode } from '#src/lib/errors.ts'
import { findPublisher } from '#src/operate/extras.ts'
import type { Maintenance } from '#src/operate/maintain.ts'
import type { Status } from '#src/operate/status.ts'
import type { Company } from './company_registry.ts'
import { connectRedis, type RedisClient, type RedisConnection } from './redis.ts'

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
  /** Set for a tick that has already waited for its company's delay (see `computeJitterMs`). */
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
  if (await findPublisher()?.isDue(settings, paths, new Date())) await requestRun(queues, 'publish', slug)
}

const JOB_NAMES: readonly JobName[] = ['sync', 'publish', 'maintain', 'mail']
const SHOWN = 200

const jobShape = z.object({
  company: z.string().min(1),
  refusals: z.number().optional(),
  spread: z.literal(true).optional(),
  offers: z.number().optional(),
})

/** The result of a job, for the board and for the requester. */
export type JobResult = { readonly skipped: string } | { readonly ended: Ended }

type AnyJob = Pick<Job<unknown>, 'id' | 'name' | 'data' | 'queueName'>

/** Returns the company of a job; null if the job has data of another shape, which this program did not write. */
export function readJobCompany(job: Pick<AnyJob, 'data'>): string | null {
  const parsed = jobShape.safeParse(job.data)
  return parsed.success ? parsed.data.company : null
}

/**
 * Returns why no worker can do the job: Redis may hold what another program or version wrote there, and what is left of a tick
 * that two workers scheduled for one time because their clocks differ. Null if it can be done.
 */
export function explainJobRefusal(job: AnyJob): string | null {
  const { id = 'without an id', name, data, queueName } = job
  const isKnown = JOB_NAMES.some(known => known === name)
  if (isKnown && readJobCompany(job) !== null) return null
  const what = isKnown
    ? `names no company in its data (${shown(data)})`
    : `is called ${shown(name)}, which is not one of ${JOB_NAMES.join(', ')}`
  return `The job ${shown(id)} in the queue ${queueName} was refused: it ${what}. Another program or version added it, or the clock of a worker is wrong: /readyz names it. No run is lost by this.`
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return text.slice(0, SHOWN)
}

/** The one message to a child: what to do for the company of its environment. */
export type RunOrder =
  | { readonly kind: 'sync'; readonly job: string; readonly full: boolean; readonly restart: boolean }
  | { readonly kind: 'publish'; readonly job: string }
  | { readonly kind: 'maintain'; readonly job: string }
  | { readonly kind: 'catch_up'; readonly job: string }
  | { readonly kind: 'status' }
  | { readonly kind: 'report' }
  | { readonly kind: 'mail'; readonly job: string }

/** A request to the API, with the status of its answer; null if there was none. */
export type AnswerSeen = { readonly status: number | null; readonly seconds: number }

export type Ended =
  | {
      readonly kind: 'synced'
      readonly report: RunReport
      readonly causes: readonly Cause[]
      readonly published: PublishedFigures
      readonly seconds: number
      readonly exitCode: ExitCode
    }
  /** Null if the object store has what it should have now. */
  | { readonly kind: 'published'; readonly snapshot: string | null }
  | { readonly kind: 'maintained'; readonly maintenance: Maintenance }
  /** Up to this segment of the log. */
  | { readonly kind: 'caught_up'; readonly segment: number }
  | { readonly kind: 'status'; readonly status: Status }
  | { readonly kind: 'report'; readonly html: string }
  | { readonly kind: 'mailed' }
  | {
      readonly kind: 'failed'
      readonly message: string
      readonly exitCode: ExitCode
      readonly cause: Cause | null
    }

/** The messages of a child, in this order; exactly one `ended`, unless it is killed. */
export type RunMessage =
  | { readonly type: 'ready' }
  /** The request is durable: a request for `--full` no longer needs to be kept elsewhere. */
  | { readonly type: 'begun' }
  | { readonly type: 'news'; readonly progress: Progress | null; readonly answers: readonly AnswerSeen[] }
  | { readonly type: 'ended'; readonly ended: Ended }

/** Renews our lock, or takes it again if it expired while the job is still active and no other worker has it. */
const KEEP_LOCK = `
  local owner = redis.call('GET', KEYS[1])
  if owner and owner ~= ARGV[1] then return 0 end
  if not owner and not redis.call('LPOS', KEYS[2], ARGV[2]) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  return 1`

/** The job is active without a lock; a worker that runs it would renew the lock. */
const IS_ABANDONED = `
  return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('LPOS', KEYS[2], ARGV[1]) ~= false`

/**
 * Locks of the jobs that this worker runs. BullMQ gives up a job whose lock expired while Redis was away, although its
 * run continues: the queue would find the job abandoned, and run it again.
 */
export type JobLocks = {
  hold(job: string, token: string): void
  release(job: string): void
  /** Keeps the lock of a job. @returns false if the queue has given the job to another worker, or no longer knows it. */
  keep(job: string): Promise<boolean>
}

export function createJobLocks({ redis, runs }: Pick<Queues, 'redis' | 'runs'>, lockMs: number): JobLocks {
  const tokens = new Map<string, string>()
  return {
    hold: (job, token) => void tokens.set(job, token),
    release: job => void tokens.delete(job),
    async keep(job) {
      const token = tokens.get(job)
      if (token === undefined) return false
      const keys = [runs.toKey(`${job}:lock`), runs.toKey('active')]
      return (await redis.eval(KEEP_LOCK, 2, ...keys, token, job, lockMs)) === 1
    },
  }
}

/** Returns whether the queue has the job as active, but its worker is gone or cannot reach Redis. */
export async function isAbandoned(
  { redis, runs }: Pick<Queues, 'redis' | 'runs'>,
  job: string,
): Promise<boolean> {
  const keys = [runs.toKey(`${job}:lock`), runs.toKey('active')]
  return (await redis.eval(IS_ABANDONED, 2, ...keys, job)) === 1
}
