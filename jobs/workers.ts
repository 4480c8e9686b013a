import { setTimeout as sleep } from 'node:timers/promises'
import { DelayedError, type Job, Worker } from 'bullmq'
import { repeatEvery } from '#jobs/queues/redis.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { lookFirst } from './looks.ts'
import { LoggedError, leaveTrace, processRun, type Shared } from './processors.ts'
import {
  type Company,
  checkVolumes,
  computeJitterMs,
  mayRunOn,
  type Volumes,
} from './queues/company_registry.ts'
import { isLastRunElsewhere } from './queues/known_state.ts'
import {
  createJobLocks,
  explainJobRefusal,
  type JobData,
  KEPT,
  type Queues,
  readJobCompany,
  requestPublish,
  requestRun,
} from './queues/queue.ts'
import { askRedis } from './queues/redis.ts'
import { isLostJob, isLostRenewal, isOfRedis, isRefusal, reach } from './queues/redis_problem.ts'
import { SHARE_LOOK_MS, type Slot, type Slots, shareSlots } from './queues/slots.ts'
import { noteAsked, requestDueRun } from './scheduler.ts'

/** A tick looks at a list, and requests a run. Most of a look is waiting for the API. */
const TICKS_AT_A_TIME = 16
/** A tick that was cut short by the end of its worker is for the next one. */
const TICK_AGAIN_MS = 500
/**
 * Which worker takes a tick is random. One that did not run the company last leaves it to the others so often, with such a
 * pause; then the last one is busy or dead.
 */
const MAX_OFFERS = 16
const OFFER_MS = 100
/** A job fails if workers died this often while running it; the next tick requests another. */
const MAX_DEATHS = 5
/** After a failure, a worker asks for its next job again. */
const RETRY_MS = 1000
const DIED_TOO_OFTEN = `${MAX_DEATHS} workers died during this run, or did not respond for JOB_LOCK_MS. See their logs for the cause. The next run continues from what is stored.`
/** If Redis is away in this many checks in a row, LOOK_MS apart, no job can be put back. */
const AWAY_LOOKS = 3
/** Enough to end a tick. BullMQ never closes if it is closed while its connection waits to reconnect. */
const IDLE_LOOKS = 10
const LOOK_MS = 500

export type Workers = Pick<Gate, 'wrongVolumes' | 'isHeldBack'> & {
  /** Takes no more jobs, and ends those under way early. */
  stop(): Promise<void>
  /** The runs under way here. */
  readonly slots: ReadonlySet<Slot>
}

/** Starts to take ticks and runs from the queues. */
export function startWorkers(shared: Shared): Workers {
  const { settings, queues } = shared
  const { slots } = shared
  const locks = createJobLocks(queues, settings.jobLockMs)
  const stopping = new AbortController()
  const gate = createGate(shared, stopping.signal)
  const options = {
    connection: queues.redis,
    prefix: queues.prefix,
    lockDuration: settings.jobLockMs,
    stalledInterval: settings.jobLockMs / 2,
    maxStalledCount: MAX_DEATHS,
    skipVersionCheck: true,
    // The gate starts them.
    autorun: false,
    // For a job that does not say it, because another program added it.
    ...KEPT,
    // Instead of 15 s: a tick and its run wait for it one after the other, after Redis is back.
    runRetryDelay: RETRY_MS,
  }
  const ticks = new Worker<JobData>(
    'ticks',
    async (job, token) => {
      await gate.admit(job, token as string)
      await tick(job, { shared, token: token as string, signal: stopping.signal })
    },
    { ...options, concurrency: TICKS_AT_A_TIME },
  )
  const runs = new Worker<JobData>(
    'runs',
    // BullMQ passes a signal only to functions with three parameters, and does not abort it for a job that comes
    // while it closes.
    async (job, token, signal) => {
      await gate.admit(job, token as string)
      return await processRun(job, {
        shared,
        locks,
        token: token as string,
        signal: AbortSignal.any([signal as AbortSignal, stopping.signal]),
      })
    },
    { ...options, concurrency: settings.concurrency },
  )
  for (const worker of [ticks, runs]) {
    worker.on('error', error => {
      // The run continues, and its job may still be kept.
      if (!isLostRenewal(error)) queues.note(error)
      if (isRefusal(error)) void gate.rest(worker)
    })
  }
  runs.on('lockRenewalFailed', async jobs => {
    for (const job of jobs) await locks.keep(job).catch(queues.note)
  })
  for (const worker of [ticks, runs]) logFailures(worker, shared)
  void repeatEvery(SHARE_LOOK_MS, () => shareSlots(slots, shared), {
    signal: stopping.signal,
    onError: queues.note,
  })
  gate.open([ticks, runs])
  return {
    slots,
    get wrongVolumes() {
      return gate.wrongVolumes
    },
    get isHeldBack() {
      return gate.isHeldBack
    },
    async stop() {
      stopping.abort()
      // Closing waits for the jobs; it does not end them.
      runs.cancelAllJobs('the worker stops')
      const closed = Promise.allSettled([ticks.close(), runs.close()])
      await Promise.race([closed, untilNothingIsLeft(queues, slots)])
    },
  }
}

/** Logs every failure, even one before the run began: the board shows it too, but at 3 a.m. people read the log. */
function logFailures(worker: Worker<JobData>, shared: Shared): void {
  const { queues, log } = shared
  worker.on('failed', (job, error) => {
    const about = { company: (job && readJobCompany(job)) ?? undefined, job: job?.id }
    if (isLostJob(error) || isOfRedis(error)) queues.note(error)
    else if (worker.name === 'runs' && job && /stalled more than/.test(error.message)) {
      log.error(about, DIED_TOO_OFTEN)
      if (job.name === 'sync') endForAll(job, shared).catch(queues.note)
    } else if (!(error instanceof LoggedError)) log.error(about, explain(error).message)
  })
}

/** Leaves the trace and the answer of a job whose workers died too often: BullMQ fails it without giving it to another worker. */
async function endForAll(job: Job<JobData>, shared: Shared): Promise<void> {
  if (explainJobRefusal(job) !== null) return
  const { data } = job
  const { requests, registry } = shared
  const company = registry.companies.get(data.company)
  if (company) await leaveTrace(shared, company, { reason: DIED_TOO_OFTEN })
  // Also answers requests that came after its last attempt began: BullMQ may have added no other job for them.
  const { covers } = await requests.take(data.company)
  const ended = { kind: 'failed', message: DIED_TOO_OFTEN, exitCode: EXIT.failed, cause: null } as const
  await requests.answer(data.company, { ended, covers })
}

/**
 * Waits until no job is left here. While Redis is away no job can be put back, and other workers will find it abandoned: then
 * waits only for the runs.
 */
async function untilNothingIsLeft({ redis, prefix }: Queues, slots: Slots): Promise<void> {
  for (let idle = 0, away = 0; idle < IDLE_LOOKS && away < AWAY_LOOKS; await sleep(LOOK_MS)) {
    const answers = await askRedis(redis, LOOK_MS, () => reach(redis, prefix)).then(
      () => true,
      () => false,
    )
    idle = slots.size === 0 ? idle + 1 : 0
    away = answers ? 0 : Math.min(away + 1, idle)
  }
}

type Ticking = { readonly shared: Shared; readonly token: string; readonly signal: AbortSignal }

async function tick(job: Job<JobData>, { shared, token, signal }: Ticking): Promise<void> {
  const { registry, queues, log } = shared
  const refusal = explainJobRefusal(job)
  if (refusal !== null) throw new FatalError(refusal)
  const { name, data } = job
  await registry.refresh()
  const company = registry.companies.get(data.company)
  const waitMs = company && !data.spread ? computeJitterMs(company, registry.companies.size) : 0
  if (waitMs > 0) {
    await job.updateData({ ...data, spread: true })
    await job.moveToDelayed(Date.now() + waitMs, token)
    throw new DelayedError()
  }
  // The run goes to a worker that knows the company, if there is one.
  if (!company) log.warn({ company: data.company }, 'The company is scheduled, but not configured here.')
  if (name === 'maintain' || name === 'mail') {
    await requestRun(queues, name, data.company)
    return
  }
  const { offers = 0 } = data
  if (company && (await isForAnother(company, offers, shared))) {
    await job.updateData({ ...data, offers: offers + 1 })
    await job.moveToDelayed(Date.now() + OFFER_MS, token)
    throw new DelayedError()
  }
  const isNew =
    company === undefined ||
    !mayRunOn(shared.settings.host, company) ||
    (await lookFirst(company, { shared, signal, job: `${job.id}` })).isNew
  // What a run left behind, or a store that was down, or LAKE_PUBLISH_INTERVAL.
  if (company && mayRunOn(shared.settings.host, company)) await requestPublish(queues, company)
  if (isNew && signal.aborted) {
    await job.moveToDelayed(Date.now() + TICK_AGAIN_MS, token)
    throw new DelayedError()
  }
  if (isNew) await requestDueRun(queues, data.company, new Date())
  else await noteAsked(queues, data.company, new Date())
}

/** Returns whether a look here would only start a run, because another host ran the company last, or only others may. */
async function isForAnother(
  company: Company,
  offers: number,
  { queues, settings }: Shared,
): Promise<boolean> {
  if (offers >= MAX_OFFERS || company.schedule.runAtLeastEveryMs === 0) return false
  if (!mayRunOn(settings.host, company)) return true
  return await isLastRunElsewhere(queues, company).catch(() => false)
}

/** Volumes are checked this often: one command to Redis and, usually, one small file. */
const VOLUME_LOOK_MS = 2000
/** A Redis that refused commands is checked this often; BullMQ itself would retry at once, forever. */
const REFUSED_PAUSE_MS = 1000
/** A job that was on its way when the volume turned out to be wrong is for another worker. */
const PUT_BACK_MS = 1000

/** Decides when this worker takes jobs: only if Redis takes commands, and a right volume is mounted. */
type Gate = {
  /** One sentence for each volume that is not the right one. */
  readonly wrongVolumes: readonly string[]
  /** Whether all volumes are wrong: then this worker takes no jobs until a right one is mounted. */
  readonly isHeldBack: boolean
  /** Starts the workers once the volumes were checked, and checks them until the signal is aborted. */
  open(workers: readonly Worker[]): void
  /** Pauses a worker until it may take jobs again. */
  rest(worker: Worker): Promise<void>
  /** Puts the job back and throws DelayedError if this worker takes none now. */
  admit(job: Job<JobData>, token: string): Promise<void>
}

function createGate({ queues, registry, log }: Shared, signal: AbortSignal): Gate {
  let volumes: Volumes | null = null
  const mayTake = () => queues.problem() === null && volumes !== null && !volumes.areAllWrong

  async function rest(worker: Worker): Promise<void> {
    if (worker.isPaused()) return
    await worker.pause(true)
    do {
      await sleep(REFUSED_PAUSE_MS, undefined, { signal }).catch(() => {})
    } while (!signal.aborted && !mayTake())
    if (!signal.aborted) worker.resume()
  }

  async function check(workers: readonly Worker[]): Promise<void> {
    const before = volumes?.problems ?? []
    volumes = await checkVolumes(queues, registry.companies.values())
    const { problems, areAllWrong } = volumes
    for (const problem of problems) if (!before.includes(problem)) log.error(problem)
    if (before.length > 0 && problems.length === 0) log.info('The right volume is mounted again.')
    if (signal.aborted) return
    for (const worker of workers) {
      if (areAllWrong && worker.isRunning()) void rest(worker)
      // Not before the first check. A paused one continues by itself.
      else if (!areAllWrong && !worker.isRunning() && !worker.isPaused()) {
        worker.run().catch(error => worker.emit('error', error))
      }
    }
  }

  return {
    get wrongVolumes() {
      return volumes?.problems ?? []
    },
    get isHeldBack() {
      return volumes?.areAllWrong ?? false
    },
    open(workers) {
      void repeatEvery(VOLUME_LOOK_MS, () => check(workers), { signal, onError: queues.note })
    },
    rest,
    async admit(job, token) {
      // A worker that is paused while it waits for a job still takes the next one.
      if (!volumes?.areAllWrong) return
      await job.moveToDelayed(Date.now() + PUT_BACK_MS, token)
      throw new DelayedError()
    },
  }
}
