import { setTimeout as sleep } from 'node:timers/promises'
import { DelayedError, type Job, Worker } from 'bullmq'
import type { Logger } from 'pino'
import type { DaemonSettings } from '#config/daemon.ts'
import { EXIT, explain, FatalError } from '#src/errors.ts'
import { lockHolder } from '#src/lock.ts'
import type { Progress } from '#src/run.ts'
import { readState } from '#src/state.ts'
import type { Alerts } from './alerts.ts'
import type { Ended } from './child.ts'
import { checkDirectory } from './directory.ts'
import type { FullRequests } from './full.ts'
import type { Metrics } from './metrics.ts'
import { inProcess } from './process.ts'
import { type JobData, type Queues, requestRun, tellError } from './queue.ts'
import type { Company, Roster } from './roster.ts'
import { requestDueRun } from './scheduler.ts'
import { afterRun } from './watch.ts'

/** A company that is held, by hand or by its other job, is looked at again so much later. */
const HELD_DELAY_MS = 10_000
/** A stopped run goes on with another worker, or with this one when it is back. */
const STOPPED_DELAY_MS = 500
/** So often a job is handed on to other workers by those with the wrong directory. */
const MAX_REFUSALS = 5
/** Ticks only ask for runs. */
const TICKS_AT_A_TIME = 8
/** A worker that dies in the middle of a job this often takes the job with it; the next tick brings another. */
const MAX_DEATHS = 5

export type Shared = {
  readonly settings: DaemonSettings
  readonly roster: Roster
  readonly queues: Queues
  readonly fullRequests: FullRequests
  readonly metrics: Metrics
  readonly alerts: Alerts
  readonly log: Logger
}

type RunJob = Job<JobData>

/** What a job tells while it goes on; the last one is how it ended. */
export type JobNews = { readonly progress: Progress } | { readonly ended: Ended }

/** What a job leaves for the board, and for whoever asked for it. */
export type JobResult =
  | { readonly skipped: string }
  | { readonly ended: Ended; readonly full_request: string | null }

export type Workers = {
  /** Takes no more jobs, and lets those under way end early. */
  stop(): Promise<void>
  /** Companies that have a run under way in this process. */
  readonly active: ReadonlySet<string>
}

/** Starts to take ticks and runs from the queues. */
export function startWorkers(shared: Shared): Workers {
  const { settings, queues, log } = shared
  const active = new Set<string>()
  const options = {
    connection: queues.redis,
    prefix: settings.redis.prefix,
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
    // BullMQ gives a signal to functions of three parameters.
    (job, token, signal) =>
      run(job, { shared, active, token: token as string, signal: signal as AbortSignal }),
    { ...options, concurrency: settings.concurrency },
  )
  for (const worker of [ticks, runs]) worker.on('error', error => tellError(log, error))
  return {
    active,
    async stop() {
      // Closing waits for the jobs; it does not end them.
      runs.cancelAllJobs('the worker stops')
      await Promise.race([Promise.all([ticks.close(), runs.close()]), withoutRedis(queues, active)])
    },
  }
}

/** No job can be put back while Redis is away: others will find it abandoned. So the runs' end must do. */
async function withoutRedis({ redis }: Queues, active: ReadonlySet<string>): Promise<void> {
  for (let away = 0; away < 10; await sleep(200)) {
    away = redis.status !== 'ready' && active.size === 0 ? away + 1 : 0
  }
}

async function tick({ name, data }: RunJob, { roster, queues, settings, log }: Shared): Promise<void> {
  await roster.refresh()
  const company = roster.companies.get(data.company)
  if (!company) log.warn({ company: data.company }, 'It was scheduled, but is not configured (any more).')
  else if (name === 'maintain') await requestRun(queues, name, company.slug)
  else await requestDueRun({ queues, prefix: settings.redis.prefix, company, now: new Date() })
}

type Run = {
  readonly shared: Shared
  readonly active: Set<string>
  readonly token: string
  readonly signal: AbortSignal
}

async function run(job: RunJob, context: Run): Promise<JobResult> {
  const { shared } = context
  const { roster, queues, settings, log } = shared
  const slug = job.data.company
  const about = { company: slug, job: job.id ?? '' }
  if (!roster.companies.has(slug)) await roster.refresh()
  const company = roster.companies.get(slug)
  if (!company) {
    const skipped = `${slug} is not configured (any more).`
    log.warn(about, skipped)
    return { skipped }
  }
  try {
    await checkDirectory(queues.redis, settings.redis.prefix, company)
    await shared.alerts.clear({
      ...wrongDirectory(slug),
      message: 'The data directory is the known one again.',
    })
  } catch (error) {
    return await refuse(job, context, error)
  }
  const holder = await lockHolder(company.paths.lock)
  if (holder) {
    log.info(about, `It is held by ${holder.what} (process ${holder.pid} on ${holder.host}); later.`)
    return await later(job, context, HELD_DELAY_MS)
  }
  const { ended, fullRequest } = await carryOut(job, company, context)
  if (ended.kind === 'failed' && ended.exitCode === EXIT.held) return await later(job, context, HELD_DELAY_MS)
  if (context.signal.aborted && isInterrupted(ended)) return await later(job, context, STOPPED_DELAY_MS)
  // A job that fails has no other result to leave for who follows it.
  await job.updateProgress({ ended })
  return conclude(ended, fullRequest)
}

async function carryOut(
  job: RunJob,
  company: Company,
  context: Run,
): Promise<{ ended: Ended; fullRequest: string | null }> {
  const { active, signal } = context
  const id = job.id ?? ''
  active.add(company.slug)
  try {
    if (job.name === 'sync') return await syncCompany(job, company, context)
    if (job.name !== 'maintain') throw new FatalError(`There is no job ${job.name}: only sync and maintain.`)
    return {
      ended: await inProcess({ company, signal, order: { kind: 'maintain', job: id } }),
      fullRequest: null,
    }
  } finally {
    active.delete(company.slug)
  }
}

async function syncCompany(job: RunJob, company: Company, { shared, signal }: Run) {
  const { fullRequests, metrics, alerts, log } = shared
  const { slug } = company
  const asked = await fullRequests.get(slug)
  const updates = latestOnly((progress: Progress) => job.updateProgress({ progress }))
  const ended = await inProcess({
    company,
    order: { kind: 'sync', job: job.id ?? '', full: asked !== null, restart: asked?.restart ?? false },
    signal,
    onBegun: () => {
      if (asked) fullRequests.done(slug, asked).catch(error => tellError(log, error))
    },
    onNews: ({ progress, answers }) => {
      metrics.observeAnswers(slug, answers)
      if (progress) updates(progress)
    },
  })
  if (ended.kind === 'synced') {
    metrics.observeRun(slug, ended.report)
    const state = await readState(company.paths)
    if (state) await afterRun(alerts, company, state)
    // Not waited for: a webhook that is slow holds up no run.
    alerts.deliver().catch(error => tellError(log, error))
  }
  return { ended, fullRequest: asked?.id ?? null }
}

function isInterrupted(ended: Ended): boolean {
  if (ended.kind === 'failed') return ended.exitCode === EXIT.interrupted
  return ended.kind === 'synced' && ended.report.status === 'interrupted'
}

/** A job fails where its run did, so that the board shows it; everything else is a result. */
function conclude(ended: Ended, full_request: string | null): JobResult {
  if (ended.kind === 'failed') throw new Error(ended.message)
  if (ended.kind === 'synced' && ended.report.status === 'failed') {
    throw new Error(ended.report.error ?? 'The run failed.')
  }
  return { ended, full_request }
}

/** Puts the job back: it keeps its place as the company's one waiting run. */
async function later(job: RunJob, { token }: Run, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}

/** Another worker may have the right directory; when none takes the job, it fails. */
async function refuse(job: RunJob, context: Run, error: unknown): Promise<never> {
  const { alerts, log } = context.shared
  const { message } = explain(error)
  const slug = job.data.company
  log.error({ company: slug, job: job.id }, message)
  if (job.attemptsStarted < MAX_REFUSALS) return await later(job, context, HELD_DELAY_MS)
  await alerts.raise({ ...wrongDirectory(slug), message })
  throw new Error(message)
}

function wrongDirectory(company: string) {
  return { name: 'wrong_directory', company } as const
}

/** While one update is on its way, only the latest of the others waits: Redis may be away for a while. */
function latestOnly<T>(send: (value: T) => Promise<unknown>): (value: T) => void {
  let waiting: T | null = null
  let sending = false
  return async function update(value) {
    waiting = value
    if (sending) return
    sending = true
    while (waiting !== null) {
      const next: T = waiting
      waiting = null
      await send(next).catch(() => {})
    }
    sending = false
  }
}
