import { DelayedError, type Job } from 'bullmq'
import type { Logger } from 'pino'
import type { DaemonSettings } from '#config/daemon.ts'
import { EXIT, FatalError } from '#src/errors.ts'
import { type Holder, lockHolder } from '#src/lock.ts'
import type { Progress } from '#src/run.ts'
import { readState } from '#src/state.ts'
import { afterRun } from './alerts/after_run.ts'
import type { Alerts } from './alerts/alerts.ts'
import type { Ended } from './child.ts'
import { checkDirectory } from './directory.ts'
import type { FullRequests } from './full.ts'
import type { Metrics } from './http/metrics.ts'
import { inProcess } from './process.ts'
import { type JobData, type Queues, tellError } from './queue.ts'
import type { Company, Roster } from './roster.ts'

/** A company that is held, by hand or by its other job, is looked at again so much later. */
const HELD_DELAY_MS = 10_000
/** A stopped run goes on with another worker, or with this one when it is back. */
const STOPPED_DELAY_MS = 500
/** What a worker cannot take is handed on so much later, so many times: to whom is chance. */
const REFUSED_DELAY_MS = 1000
const MAX_REFUSALS = { notConfigured: 3, wrongDirectory: 10 } as const

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

export type Context = {
  readonly shared: Shared
  /** Companies that have a process under way in this worker. */
  readonly active: Set<string>
  readonly token: string
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal
}

/** What becomes of a job of `runs`. */
export async function processRun(job: RunJob, context: Context): Promise<JobResult> {
  const { shared, signal } = context
  const { roster, alerts, queues, log } = shared
  const slug = job.data.company
  const about = { company: slug, job: job.id ?? '' }
  if (signal.aborted) return await later(job, context, STOPPED_DELAY_MS)
  if (!roster.companies.has(slug)) await roster.refresh()
  const company = roster.companies.get(slug)
  if (!company) {
    const skipped = `${slug} is not configured (any more).`
    await handOn(job, context, MAX_REFUSALS.notConfigured)
    log.warn(about, skipped)
    return { skipped }
  }
  const refusal = await checkDirectory(queues, company)
  if (refusal !== null) {
    log.error(about, refusal)
    await handOn(job, context, MAX_REFUSALS.wrongDirectory)
    await alerts.raise({ ...wrongDirectory(slug), message: refusal })
    throw new ToldError(refusal)
  }
  await alerts.clear({ ...wrongDirectory(slug), message: 'The data directory is the known one again.' })
  const holder = await lockHolder(company.paths.lock)
  if (holder) {
    log.info(about, `It is held by ${describe(holder)}; later.`)
    return await later(job, context, HELD_DELAY_MS)
  }
  const { ended, fullRequest } = await carryOut(job, company, context)
  if (ended.kind === 'failed' && ended.exitCode === EXIT.held) return await later(job, context, HELD_DELAY_MS)
  if (signal.aborted && isInterrupted(ended)) return await later(job, context, STOPPED_DELAY_MS)
  // A job that fails has no other result to leave for who follows it.
  await job.updateProgress({ ended })
  return conclude(ended, fullRequest)
}

type CarriedOut = { readonly ended: Ended; readonly fullRequest: string | null }

async function carryOut(job: RunJob, company: Company, context: Context): Promise<CarriedOut> {
  if (job.name === 'sync') return await syncCompany(job, company, context)
  if (job.name !== 'maintain') {
    throw new FatalError(`There is no job ${job.name}: only sync and maintain.`)
  }
  const order = { kind: 'maintain', job: job.id ?? '' } as const
  return { ended: await inProcess({ ...context, company, order }), fullRequest: null }
}

async function syncCompany(job: RunJob, company: Company, context: Context): Promise<CarriedOut> {
  const { fullRequests, metrics, alerts, log } = context.shared
  const { slug } = company
  const asked = await fullRequests.get(slug)
  const updates = latestOnly((progress: Progress) => job.updateProgress({ progress }))
  const ended = await inProcess({
    ...context,
    company,
    order: { kind: 'sync', job: job.id ?? '', full: asked !== null, restart: asked?.restart ?? false },
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

/** Why a job failed, where the log has it already. */
export class ToldError extends FatalError {}

/** A job fails where its run did, so that the board shows it; everything else is a result. */
function conclude(ended: Ended, full_request: string | null): JobResult {
  if (ended.kind === 'failed') throw new FatalError(ended.message)
  if (ended.kind === 'synced' && ended.report.status === 'failed') {
    throw new ToldError(ended.report.error ?? 'The run failed.')
  }
  return { ended, full_request }
}

/** Puts the job back: it keeps its place as the company's one waiting run. */
async function later(job: RunJob, { token }: Context, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}

/** Gives the job back for another worker to take, unless that was done often enough. */
async function handOn(job: RunJob, context: Context, times: number): Promise<void> {
  const { refusals = 0 } = job.data
  if (refusals >= times) return
  await job.updateData({ ...job.data, refusals: refusals + 1 })
  await later(job, context, REFUSED_DELAY_MS)
}

function wrongDirectory(company: string) {
  return { name: 'wrong_directory', company } as const
}

function describe({ what, pid, host }: Holder): string {
  return pid === 0 ? what : `${what} (process ${pid} on ${host})`
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
