import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import type { Listener } from '#src/extras/hold.ts'
import { FatalError, InterruptedError } from '#src/lib/errors.ts'
import type { JobNews } from './processors.ts'
import { type Ended, isAbandoned, openQueues, type Queues } from './queues/queue.ts'
import { describeSilence, isRefusal, probe } from './queues/redis_problem.ts'
import {
  doesCover,
  openRequests,
  type RequestNumber,
  type RequestOutcome,
  requestSync,
} from './queues/requests.ts'

const REDIS_WITHIN_MS = 5000
/** The state of the run is checked this often. */
const LOOK_MS = 300
/** While a cluster has no master for our keys, it refuses to answer; that is over sooner. */
const REFUSED_WITHIN_MS = 60_000
/** A run must begin within this, unless --wait is given; once begun, it may take as long as it needs. */
const BEGIN_WITHIN_SECONDS = 600

export type Followed = Ended & { readonly kind: 'synced' }

export type EnqueueOptions = {
  readonly redis: RedisSettings
  readonly company: string
  readonly full: boolean
  readonly restart: boolean
  /** How long to wait for the end of the run; null: without limit once it has begun. */
  readonly waitSeconds: number | null
  readonly listener: Listener
  readonly log: Logger
  readonly signal: AbortSignal
}

/**
 * Sends the daemon a request for a run, and waits for the end of a run that covers it. The daemon keeps the request
 * even if this process ends.
 * @throws FatalError if Redis does not answer, the run does not begin or end in time, it failed without a report, or
 *   the daemon does not know the company; InterruptedError.
 */
export async function enqueue(options: EnqueueOptions): Promise<Followed> {
  const { redis, log, signal } = options
  // A problem with Redis at the start is in the error, so it is not logged too.
  const queuesLog = log.child({}, { level: 'silent' })
  const queues = openQueues(redis, queuesLog)
  let patience: Patience | null = null
  try {
    await answering(queues, redis)
    queuesLog.level = log.level
    patience = startPatience(options)
    return await interruptible(signal, Promise.race([follow(queues, patience, options), patience.over]))
  } finally {
    patience?.end()
    await queues.close()
  }
}

async function answering({ redis, prefix, problem, note }: Queues, settings: RedisSettings): Promise<void> {
  const answered = probe(redis, prefix).then(
    () => true,
    error => {
      note(error)
      return false
    },
  )
  if (await Promise.race([answered, sleep(REDIS_WITHIN_MS, false, { ref: false })])) return
  const { sentence } =
    problem() ?? describeSilence(settings.url, { ms: REDIS_WITHIN_MS, wasEverReady: false })
  throw new FatalError(`${sentence} No run was requested.`)
}

async function interruptible<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const interrupted = Promise.withResolvers<never>()
  const stop = () =>
    interrupted.reject(new InterruptedError('Stopped waiting for the run. The daemon keeps the request.'))
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, interrupted.promise])
  } finally {
    signal.removeEventListener('abort', stop)
    // Handles a failure that comes after the wait is over.
    work.catch(() => {})
  }
}

type Patience = {
  /** Rejects at the timeout, even while Redis is away. */
  readonly over: Promise<never>
  /** Notes that the run is under way as this job. */
  begun(job: string): void
  /** Notes that the job was put back and must begin again. */
  putBack(): void
  end(): void
}

function startPatience({ company, waitSeconds }: EnqueueOptions): Patience {
  const { promise: over, reject } = Promise.withResolvers<never>()
  over.catch(() => {})
  const seconds = waitSeconds ?? BEGIN_WITHIN_SECONDS
  let job: string | null = null
  const giveUp = () => {
    const what = job
      ? `The run of ${company} (job ${job}) did not end within ${seconds} s. It continues in the daemon`
      : `No run of ${company} began within ${seconds} s. The daemon keeps the request`
    reject(new FatalError(`${what}; see its log.`))
  }
  const start = () => setTimeout(giveUp, seconds * 1000)
  let timer = start()
  return {
    over,
    begun(id) {
      job = id
      if (waitSeconds === null) clearTimeout(timer)
    },
    putBack() {
      if (job === null) return
      job = null
      if (waitSeconds === null) timer = start()
    },
    end: () => clearTimeout(timer),
  }
}

async function follow(queues: Queues, patience: Patience, options: EnqueueOptions): Promise<Followed> {
  const { company, listener, signal } = options
  const requests = openRequests(queues.redis, queues.prefix, () => new Date())
  const handOver = () => requestSync({ queues, requests }, company, options)
  let { request } = await handOver()
  // Some managed Redis services do not list their clients.
  if ((await queues.runs.getWorkersCount().catch(() => 1)) === 0) {
    listener.note('No worker is running. The request waits until one is started (editais start).')
  }
  const watch = watchJob(queues, patience, options)
  const look = despiteRefusals(() => requests.look(company, request))
  while (!signal.aborted) {
    const answer = await look()
    if (answer === 'forgotten') {
      listener.note('Redis lost the request; sending it again')
      request = (await handOver()).request
    } else if (answer !== null) return conclude(answer)
    await watch(request).catch(passRefusal)
    await sleep(LOOK_MS)
  }
  throw new InterruptedError()
}

/** Returns null instead of an answer while Redis refuses, for some time: the request is stored, so a refusal only delays it. */
function despiteRefusals<T>(look: () => Promise<T>): () => Promise<T | null> {
  let sinceMs: number | null = null
  return async () => {
    try {
      const answer = await look()
      sinceMs = null
      return answer
    } catch (error) {
      sinceMs ??= performance.now()
      if (performance.now() - sinceMs > REFUSED_WITHIN_MS) throw error
      passRefusal(error)
      return null
    }
  }
}

function passRefusal(error: unknown): void {
  if (!isRefusal(error)) throw error
}

function conclude(answer: RequestOutcome): Followed {
  if ('skipped' in answer) throw new FatalError(`The daemon skipped the run: ${answer.skipped}`)
  const { ended } = answer
  if (ended.kind === 'synced') return ended
  throw new FatalError(ended.kind === 'failed' ? ended.message : 'The daemon did not run a sync.')
}

/** Shows the state of the job that will answer the request; each call checks once. */
function watchJob(
  queues: Queues,
  patience: Patience,
  { company, listener }: EnqueueOptions,
): (request: RequestNumber) => Promise<void> {
  const { runs } = queues
  let shown = ''
  const note = (text: string) => {
    if (text !== shown) listener.note(text)
    shown = text
  }
  return async request => {
    const id = await runs.getDeduplicationJobId(`sync-${company}`)
    const job = id === null ? undefined : await runs.getJob(id)
    // The job ended without an answer, or Redis lost it: another one must begin in time.
    if (!id || !job) return patience.putBack()
    const state = await job.getState()
    const news = job.progress as Partial<JobNews>
    if (state === 'active' && (await isAbandoned(queues, id))) {
      patience.putBack()
      note('The worker of the run stopped responding; waiting for another one to take it')
    } else if (state === 'active' && news.covers && doesCover(news.covers, request)) {
      patience.begun(id)
      note(`The daemon runs it as job ${id}`)
      if (news.progress) listener.progress(news.progress)
    } else if (state !== 'active') {
      patience.putBack()
      if (state === 'delayed') note('The company is held, or the worker stopped; the run starts later')
    }
  }
}
