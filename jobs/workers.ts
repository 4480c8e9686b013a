import { setTimeout as sleep } from 'node:timers/promises'
import { type Job, Worker } from 'bullmq'
import { explain } from '#src/errors.ts'
import { processRun, type Shared, ToldError } from './processors.ts'
import { isRefusal, type JobData, type Queues, requestRun, tellError } from './queue.ts'
import { requestDueRun } from './scheduler.ts'
import { fromRedis } from './within.ts'

/** Ticks only ask for runs. */
const TICKS_AT_A_TIME = 8
/** A worker that dies in the middle of a job this often takes the job with it; the next tick brings another. */
const MAX_DEATHS = 5
/** A Redis that refuses is asked again after so long; BullMQ itself would do it at once, and for ever. */
const REFUSED_PAUSE_MS = 5000
/** Redis has been away for so many looks, each so long after the other: then nothing can be put back. */
const AWAY_LOOKS = 3
const LOOK_MS = 500

export type Workers = {
  /** Takes no more jobs, and lets those under way end early. */
  stop(): Promise<void>
  /** Companies that have a process under way here. */
  readonly active: ReadonlySet<string>
}

/** Starts to take ticks and runs from the queues. */
export function startWorkers(shared: Shared): Workers {
  const { settings, queues, log } = shared
  const active = new Set<string>()
  const stopping = new AbortController()
  const options = {
    connection: queues.redis,
    prefix: queues.prefix,
    lockDuration: settings.jobLockMs,
    stalledInterval: settings.jobLockMs / 2,
    maxStalledCount: MAX_DEATHS,
    skipVersionCheck: true,
  }
  const ticks = new Worker<JobData>('ticks', job => tick(job, shared), {
    ...options,
    concurrency: TICKS_AT_A_TIME,
  })
  const runs = new Worker<JobData>(
    'runs',
    // BullMQ gives a signal to functions of three parameters. One that comes while it closes gets none from it.
    (job, token, signal) =>
      processRun(job, {
        ...{ shared, active, token: token as string },
        signal: AbortSignal.any([signal as AbortSignal, stopping.signal]),
      }),
    { ...options, concurrency: settings.concurrency },
  )
  for (const worker of [ticks, runs]) {
    worker.on('error', error => {
      tellError(log, error)
      if (isRefusal(error)) rest(worker, stopping.signal)
    })
  }
  // Whatever it was, also before its run began: the board keeps it, but at 3 a.m. one reads the log.
  runs.on('failed', (job, error) => {
    const about = { company: job?.data.company, job: job?.id }
    if (!(error instanceof ToldError)) log.error(about, explain(error).message)
  })
  return {
    active,
    async stop() {
      stopping.abort()
      // Closing waits for the jobs; it does not end them.
      runs.cancelAllJobs('the worker stops')
      const closed = Promise.allSettled([ticks.close(), runs.close()])
      await Promise.race([closed, untilNothingIsLeft(queues, active)])
    },
  }
}

async function rest(worker: Worker, signal: AbortSignal): Promise<void> {
  if (worker.isPaused()) return
  await worker.pause(true)
  await sleep(REFUSED_PAUSE_MS, undefined, { signal }).catch(() => {})
  if (!signal.aborted) worker.resume()
}

/** No job can be put back while Redis is away: others will find it abandoned. So the runs' end must do. */
async function untilNothingIsLeft(queues: Queues, active: ReadonlySet<string>): Promise<void> {
  for (let away = 0; away < AWAY_LOOKS; await sleep(LOOK_MS)) {
    const answers = await fromRedis(queues.redis, LOOK_MS, () => queues.redis.ping()).catch(() => null)
    away = answers === null && active.size === 0 ? away + 1 : 0
  }
}

async function tick({ name, data }: Job<JobData>, { roster, queues, log }: Shared): Promise<void> {
  await roster.refresh()
  const company = roster.companies.get(data.company)
  // The run goes to a worker that knows the company, if there is one.
  if (!company) log.warn({ company: data.company }, 'It is scheduled, but not configured here.')
  if (name === 'maintain') await requestRun(queues, name, data.company)
  else await requestDueRun(queues, data.company, new Date())
}
