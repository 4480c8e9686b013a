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
const CLOSE_WITHIN_MS = 1000

export type Followed = Ended & { readonly kind: 'synced' }

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
export async function enqueue(options: EnqueueOptions): Promise<Followed> {
  const { redis, log, signal } = options
  const queues = openQueues(redis, log)
  try {
    await answering(queues, redis)
    const events = await interruptible(signal, openEvents(queues, log))
    try {
      return await interruptible(signal, handOver(queues, events, options))
    } finally {
      // Where Redis went away, closing waits for it.
      await Promise.race([events.close(), sleep(CLOSE_WITHIN_MS)])
    }
  } finally {
    await queues.close()
  }
}

async function answering({ redis, refusal }: Queues, { url }: RedisSettings): Promise<void> {
  const answered = redis.ping().then(
    () => true,
    () => false,
  )
  if (await Promise.race([answered, sleep(REDIS_WITHIN_MS, false, { ref: false })])) return
  const refused = refusal()
  if (refused !== null) throw new FatalError(`${refused} Nothing was handed over.`)
  throw new FatalError(
    `Redis at ${hostOf(url)} is not there. Nothing was handed over. Set REDIS_URL to the daemon's.`,
  )
}

/** Told of everything from now on: without a place to begin, what comes before the first look would be missed. */
async function openEvents({ runs, redis, prefix }: Queues, log: Logger): Promise<QueueEvents> {
  const [last] = await redis.xrevrange(`${prefix}:${runs.name}:events`, '+', '-', 'COUNT', 1)
  const events = new QueueEvents(runs.name, {
    ...{ connection: redis, prefix, skipVersionCheck: true },
    lastEventId: last?.[0] ?? '0-0',
  })
  events.on('error', error => tellError(log, error))
  await events.waitUntilReady()
  return events
}

async function interruptible<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const interrupted = Promise.withResolvers<never>()
  const stop = () =>
    interrupted.reject(new InterruptedError('Not following any more; the request stays with the daemon.'))
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, interrupted.promise])
  } finally {
    signal.removeEventListener('abort', stop)
    // It may still fail, when nobody waits for it any more.
    work.catch(() => {})
  }
}

async function handOver(queues: Queues, events: QueueEvents, options: EnqueueOptions): Promise<Followed> {
  const { company, listener, waitSeconds } = options
  const requests = fullRequests(queues.redis, queues.prefix, () => new Date())
  const asked = options.full ? await requests.add(company, options) : null
  const followed = follow(events, { ...options, queues, asked })
  const late = setTimeout(() => followed.giveUp(), waitSeconds * 1000)
  try {
    await requestRun(queues, 'sync', company)
    // Some that are managed by others do not tell who is connected.
    if ((await queues.runs.getWorkersCount().catch(() => 1)) === 0) {
      listener.note('No worker is running (npm start); the request waits for one.')
    }
    return await interruptible(options.signal, followed.end)
  } finally {
    clearTimeout(late)
  }
}

type Follow = EnqueueOptions & { readonly queues: Queues; readonly asked: FullRequest | null }

/** `end` resolves with the end of the first run that begins from now on and answers the request. */
function follow(events: QueueEvents, options: Follow): { readonly end: Promise<Followed>; giveUp(): void } {
  const { company, queues, asked, listener } = options
  const { promise, resolve, reject } = Promise.withResolvers<Followed>()
  // Who follows may fail before it waits for this.
  promise.catch(() => {})
  let job: string | null = null
  let begun = false
  let ended: Ended | null = null
  const onActive = async ({ jobId }: { jobId: string }) => {
    const found = await queues.runs.getJob(jobId)
    if (found?.name !== 'sync' || found.data.company !== company) return
    if (job !== jobId) listener.note(`The daemon runs it as job ${jobId}`)
    job = jobId
    begun = true
  }
  // One after the other: a job may be over before it is known whose it is.
  let told = Promise.resolve()
  const inOrder =
    <T>(hear: (event: T) => void | Promise<void>) =>
    (event: T) => {
      told = told.then(() => hear(event)).catch(reject)
    }
  const onProgress = ({ jobId, data }: { jobId: string; data: unknown }) => {
    if (jobId !== job) return
    const news = data as JobNews
    if ('progress' in news) listener.progress(news.progress)
    else ended = news.ended
  }
  const onDelayed = ({ jobId }: { jobId: string }) => {
    if (jobId === job) listener.note('The company is held, or the worker stopped; the run will follow')
  }
  const onCompleted = ({ jobId, returnvalue }: { jobId: string; returnvalue: unknown }) => {
    if (jobId !== job) return
    const result = returnvalue as JobResult
    if ('skipped' in result) reject(new FatalError(`The daemon did nothing: ${result.skipped}`))
    // It began before the request was there; the next one has it.
    else if (asked && result.full_request !== asked.id) job = null
    else if (result.ended.kind === 'synced') resolve(result.ended)
  }
  const onFailed = ({ jobId, failedReason }: { jobId: string; failedReason: string }) => {
    if (jobId !== job) return
    if (ended?.kind === 'synced') resolve(ended)
    else reject(new FatalError(failedReason))
  }
  events.on('active', inOrder(onActive))
  events.on('progress', inOrder(onProgress))
  events.on('delayed', inOrder(onDelayed))
  events.on('completed', inOrder(onCompleted))
  events.on('failed', inOrder(onFailed))
  return {
    end: promise,
    giveUp() {
      if (begun) return
      reject(
        new FatalError(
          `No run of ${company} began within ${options.waitSeconds} s. The request stays with the daemon; see its log.`,
        ),
      )
    },
  }
}
