import { setTimeout as sleep } from 'node:timers/promises'
import { Queue, UnrecoverableError, Worker } from 'bullmq'
import type { Logger } from 'pino'
import type { Queues } from '#jobs/queues/queue.ts'
import { repeatEvery } from '#jobs/queues/redis.ts'
import { explain } from '#src/lib/errors.ts'
import type { Sources } from '#src/server/company.ts'
import type { FeedSnapshot } from '#src/server/feed/feed.ts'
import { type Feeds, openFeeds } from '#src/server/webhooks/feed.ts'
import {
  createDeliver,
  DELAYS_MS,
  forgetOld,
  type PumpOptions,
  queueWaiting,
  RefusedError,
  type RestLimits,
  readBacklogs,
  takeEvents,
  type WebhookJob,
  type WebhookMetrics,
} from './deliver.ts'

/** Messages that a worker sends at the same time. */
const AT_A_TIME = 8
const PUMP_MS = 2000
const FORGET_MS = 3_600_000
/** Messages are queued again after this, in case Redis lost them; those that are there stay as they are. */
const QUEUE_AGAIN_MS = 60_000

type Webhooks = {
  readonly queue: Queue<WebhookJob>
  stop(): Promise<void>
}

type Options = Sources & {
  readonly queues: Queues
  readonly dataDir: string
  readonly allowPrivate: boolean
  /** Returns the snapshot that this worker serves. Throws Refusal (503) if there is none yet. */
  readonly getServed?: (company: string) => FeedSnapshot
  /** Instead of the feeds of the lakes. */
  readonly feeds?: Feeds
  readonly isOurs: (company: string) => boolean
  /** How long to wait before each further attempt of a message; by default, three days in all. */
  readonly delaysMs?: readonly number[]
  /** How long a receiver that fails rests. */
  readonly rests?: RestLimits
  readonly metrics?: Pick<WebhookMetrics, 'attempted' | 'watch'>
  readonly log: Logger
  readonly now: () => Date
}

/**
 * Sends the events of the companies' feeds to their subscribers. What is to be sent is in the file of subscriptions; the queue in
 * Redis only says when, so that no message is lost with Redis.
 */
export function startWebhooks({ queues, log, delaysMs = DELAYS_MS, ...options }: Options): Webhooks {
  const own = options.feeds ? null : openFeeds({ ...options, log })
  const feeds = (options.feeds ?? own) as Feeds
  const connection = { connection: queues.redis, prefix: queues.prefix, skipVersionCheck: true }
  const queue = new Queue<WebhookJob>('webhooks', connection)
  const [stopping, cutting] = [new AbortController(), new AbortController()]
  const enqueue = createEnqueue(queue, delaysMs.length + 1)
  const deliveries = createDeliver({ ...options, delaysMs, enqueue, onError: queues.note, log })
  const worker = new Worker<WebhookJob>(
    'webhooks',
    async (job, token, signal) =>
      await deliveries.deliver(job, {
        token: token as string,
        signal: AbortSignal.any([signal as AbortSignal, cutting.signal]),
      }),
    {
      ...connection,
      concurrency: AT_A_TIME,
      settings: { backoffStrategy: attempts => delaysMs[attempts - 1] ?? 0 },
    },
  )
  options.metrics?.watch(() => readBacklogs(options.dataDir))
  queue.on('error', queues.note)
  worker.on('error', queues.note)
  worker.on('failed', (job, error) => {
    if (error instanceof RefusedError || error instanceof UnrecoverableError) return
    const { company, subscription: webhook } = job?.data ?? {}
    log.error({ company, webhook, message: job?.id }, `A message was not sent: ${explain(error).message}`)
  })
  const parts = { ...options, feeds, enqueue, ...createNews(log) }
  const loop = { signal: stopping.signal, onError: queues.note }
  const queueing = repeatEvery(PUMP_MS, () => queueWaiting(parts), loop)
  const taking = repeatEvery(PUMP_MS, () => takeEvents(parts), loop)
  const forgetting = repeatEvery(FORGET_MS, async () => forgetOld(options.dataDir, options.now()), loop)
  return {
    queue,
    async stop() {
      stopping.abort()
      const atMost = (ms: number) => sleep(ms, undefined, { ref: false })
      // Takes no more jobs. What is under way is received once, instead of again after the next start.
      const idle = worker.close()
      await Promise.race([idle, atMost(SEND_WITHIN_MS)])
      cutting.abort()
      // BullMQ never closes if its connection waits to reconnect.
      const ended = idle.then(() => queue.close())
      await Promise.race([Promise.allSettled([queueing, taking, forgetting, ended]), atMost(CLOSE_WITHIN_MS)])
      deliveries.close()
      await own?.close()
    },
  }
}

/** Adds jobs for messages that have none. */
function createEnqueue(queue: Queue<WebhookJob>, attempts: number): PumpOptions['enqueue'] {
  const queuedAt = new Map<string, number>()
  return async ({ id: subscription, company }, queued) => {
    const nowMs = performance.now()
    // With the time, because a message that is replayed is queued once more.
    const due = queued
      .map(({ id, at }) => ({ jobId: id, as: `${id} ${at}` }))
      .filter(({ as }) => nowMs - (queuedAt.get(as) ?? Number.NEGATIVE_INFINITY) > QUEUE_AGAIN_MS)
    if (due.length === 0) return
    const data = { company, subscription }
    await queue.addBulk(
      due.map(({ jobId }) => ({ name: 'message', data, opts: { ...JOB, attempts, jobId } })),
    )
    for (const { as } of due) queuedAt.set(as, nowMs)
    if (queuedAt.size > MOST_KNOWN) queuedAt.clear()
  }
}

/** Logs what happens to subscriptions; a problem that stays, once. */
function createNews(log: Logger): Pick<PumpOptions, 'onStop' | 'onError'> {
  const problems = new Map<string, string>()
  return {
    onStop: ({ id, company }, because) =>
      log.warn({ company, webhook: id }, `Webhook ${id} is stopped: ${because}.`),
    onError({ id, company }, error) {
      const problem = explain(error).message
      if (problems.get(id) !== problem)
        log.error({ company, webhook: id }, `The events of ${company} cannot be read: ${problem}`)
      problems.set(id, problem)
    },
  }
}

/** A receiver may take longer; its message is cut and sent again. */
const SEND_WITHIN_MS = 8000
const CLOSE_WITHIN_MS = 5000
/** Beyond this, everything is queued once more instead. */
const MOST_KNOWN = 100_000

const JOB = {
  backoff: { type: 'custom' },
  stackTraceLimit: 0,
  // The outcome of a message is in the file of subscriptions.
  removeOnComplete: true,
  removeOnFail: true,
} as const
