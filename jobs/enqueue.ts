import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { QueueEvents } from 'bullmq'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { FatalError, InterruptedError } from '#src/errors.ts'
import type { Listener } from '#src/open.ts'
import type { Ended } from './child.ts'
import { type FullRequest, fullRequests } from './full.ts'
import type { JobNews, JobResult } from './processors.ts'
import { hostOf, openQueues, type Queues, requestRun, tellError } from './queue.ts'

const REDIS_WITHIN_MS = 5000

export type EnqueueOptions = {
  readonly redis: RedisSettings
  readonly company: string
  readonly full: boolean
  readonly restart: boolean
  /** How long the run may take to begin. */
  readonly waitSeconds: number
  readonly listener: Listener
  readonly log: Logger
  readonly signal: AbortSignal
}

/**
 * Hands a request for a run to the daemon, and follows the run that answers it to its end. The request
 * stays with the daemon, whatever becomes of this process.
 * @throws FatalError when Redis does not answer, no run begins in time, or the daemon does not know the
 *   company; InterruptedError.
 */
export async function enqueue(options: EnqueueOptions): Promise<Ended & { kind: 'synced' }> {
  const { redis, log } = options
  const queues = openQueues(redis, log)
  try {
    await answering(queues, redis)
  } catch (error) {
    queues.redis.disconnect()
    throw error
  }
  const events = new QueueEvents('runs', {
    connection: queues.redis,
    prefix: redis.prefix,
    skipVersionCheck: true,
  })
  events.on('error', error => tellError(log, error))
  try {
    return await handOver(queues, events, options)
  } finally {
    await events.close()
    await queues.close()
  }
}

async function handOver(
  queues: Queues,
  events: QueueEvents,
  options: EnqueueOptions,
): Promise<Ended & { kind: 'synced' }> {
  const { redis, company, listener } = options
  await events.waitUntilReady()
  const requests = fullRequests(queues.redis, redis.prefix, () => new Date())
  const asked = options.full ? await requests.add(company, options) : null
  const followed = follow(events, { ...options, queues, asked })
  await requestRun(queues, 'sync', company)
  if ((await queues.runs.getWorkersCount()) === 0) {
    listener.note('No worker is running (npm start); the request waits for one.')
  }
  return await followed
}

async function answering({ redis }: Queues, { url }: RedisSettings): Promise<void> {
  const answered = redis.ping().then(
    () => true,
    () => false,
  )
  if (await Promise.race([answered, sleep(REDIS_WITHIN_MS, false)])) return
  throw new FatalError(
    `Redis at ${hostOf(url)} is not there. Nothing was handed over. Set REDIS_URL to the daemon's.`,
  )
}

type Follow = EnqueueOptions & { readonly queues: Queues; readonly asked: FullRequest | null }

/** Resolves with the end of the first run that begins from now on and answers the request. */
async function follow(events: QueueEvents, options: Follow): Promise<Ended & { kind: 'synced' }> {
  const { company, queues, asked, listener, signal } = options
  const { promise, resolve, reject } = Promise.withResolvers<Ended & { kind: 'synced' }>()
  let job: string | null = null
  let ended: Ended | null = null
  const waiting = setTimeout(
    () =>
      reject(
        new FatalError(
          `No run of ${company} began within ${options.waitSeconds} s. The request stays with the daemon; see its log.`,
        ),
      ),
    options.waitSeconds * 1000,
  )
  events.on('active', async ({ jobId }) => {
    const found = await queues.runs.getJob(jobId)
    if (found?.name !== 'sync' || found.data.company !== company) return
    clearTimeout(waiting)
    job = jobId
    listener.note(`The daemon runs it as job ${jobId}`)
  })
  events.on('progress', ({ jobId, data }) => {
    if (jobId !== job) return
    const news = data as JobNews
    if ('progress' in news) listener.progress(news.progress)
    else ended = news.ended
  })
  events.on('delayed', ({ jobId }) => {
    if (jobId === job) listener.note('The company is held, or the worker stopped; another run will follow')
  })
  events.on('completed', ({ jobId, returnvalue }) => {
    if (jobId !== job) return
    const result = returnvalue as unknown as JobResult
    if ('skipped' in result) reject(new FatalError(`The daemon did nothing: ${result.skipped}`))
    // It began before the request was there; the next one has it.
    else if (asked && result.full_request !== asked.id) job = null
    else if (result.ended.kind === 'synced') resolve(result.ended)
  })
  events.on('failed', ({ jobId, failedReason }) => {
    if (jobId !== job) return
    if (ended?.kind === 'synced') resolve(ended)
    else reject(new FatalError(failedReason))
  })
  const interrupted = once(signal, 'abort').then(() => {
    throw new InterruptedError('Not following any more; the request stays with the daemon.')
  })
  try {
    return await Promise.race([promise, interrupted])
  } finally {
    clearTimeout(waiting)
  }
}
