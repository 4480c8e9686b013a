import { setTimeout as sleep } from 'node:timers/promises'
import { DelayedError, type Job } from 'bullmq'
import type { Logger } from 'pino'
import type { DaemonSettings } from '#config/daemon.ts'
import { formatDuration } from '#config/settings.ts'
import type { Heartbeat } from '#jobs/alerts/receivers.ts'
import { isGoodRun } from '#schema/sync_runs.ts'
import { noteFailure } from '#src/core/company/run_report.ts'
import { readState } from '#src/core/company/state.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import { EXIT, explain, FatalError, getMessage } from '#src/lib/errors.ts'
import { describeHolder, type LockHolder, lockHolder } from '#src/lib/lock.ts'
import { type Alerts, alertAfterRun, judgeStore } from './alerts/alerts.ts'
import type { Metrics } from './http/metrics.ts'
import { runInProcess } from './process.ts'
import { type Company, type CompanyRegistry, checkDirectory, mayRunOn } from './queues/company_registry.ts'
import { shareState } from './queues/known_state.ts'
import {
  type Ended,
  explainJobRefusal,
  type JobData,
  type JobLocks,
  type JobResult,
  type Queues,
  requestPublish,
} from './queues/queue.ts'
import { isLostJob, isOfRedis } from './queues/redis_problem.ts'
import type { RequestNumber, Requests, Taken } from './queues/requests.ts'
import { type Slot, type Slots, takeSlot } from './queues/slots.ts'

/** A job is retried after this if its company is held, by hand or by its other job. */
const HELD_DELAY_MS = 10_000
/** A stopped run is retried after this, by another worker or by this one once it is back. */
const STOPPED_DELAY_MS = 500
/**
 * A job that this worker cannot take is offered again after this, as often as MAX_REFUSALS allows. Which worker takes
 * it is random.
 */
const REFUSED_DELAY_MS = 1000
/** A command that Redis refuses is retried after this. */
const REFUSED_AGAIN_MS = 1000
const MAX_REFUSALS = {
  notConfigured: 3,
  wrongDirectory: 10,
  newerSchema: 10,
  mailServer: 12,
} as const
/**
 * A job of a pinned company is offered again after 0.1 s, 0.2 s, and so on: for ten minutes, or an hour. The first offers are
 * dense, because BullMQ gives the job to a random host, often to one that may not take it.
 */
const PASS_DELAY_MS = { step: 100, max: 10_000 } as const
const MAX_PASSES = { others: 110, mail: 410 } as const
/** A mail that its server did not take is sent again after this, for an hour. */
const MAIL_AGAIN_MS = 5 * 60_000

export type Shared = {
  readonly settings: DaemonSettings
  readonly registry: CompanyRegistry
  readonly queues: Queues
  /** The runs under way in this worker. */
  readonly slots: Slots
  readonly requests: Requests
  readonly metrics: Metrics
  readonly alerts: Alerts
  readonly heartbeat: Heartbeat
  readonly log: Logger
}

type RunJob = Job<JobData>

/** The news of a job while it runs: the last request that its run covers, and its progress. */
export type JobNews = { readonly covers: RequestNumber; readonly progress: Progress | null }

type Context = {
  readonly shared: Shared
  readonly token: string
  readonly locks: JobLocks
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal
}

/** Processes a job of `runs`. The requester gets the answer before the job ends. */
export async function processRun(job: RunJob, context: Context): Promise<JobResult> {
  const { locks, token } = context
  const id = job.id ?? ''
  locks.hold(id, token)
  try {
    const result = await answered(job, context)
    await untilRedisTakesIt(context, () => locks.keep(id))
    return conclude(result)
  } finally {
    locks.release(id)
  }
}

async function answered(job: RunJob, context: Context): Promise<JobResult> {
  const refusal = explainJobRefusal(job)
  if (refusal !== null) throw new FatalError(refusal)
  if (job.name !== 'sync') return await attempt(job, context, NOTHING_TAKEN)
  const { requests } = context.shared
  const { company } = job.data
  const taken = await untilRedisTakesIt(context, () => requests.take(company))
  const answer = async (result: JobResult) =>
    await untilRedisTakesIt(context, () => requests.answer(company, { ...result, covers: taken.covers }))
  try {
    const result = await attempt(job, context, taken)
    await answer(result)
    return result
  } catch (error) {
    // A job that was put back, or that the queue gave to another worker, has not ended yet.
    if (!(error instanceof DelayedError || isLostJob(error) || isOfRedis(error))) {
      await answer({ ended: failedWith(error) })
    }
    throw error
  }
}

/**
 * Retries while Redis refuses. If the job ended meanwhile, the queue would still have it as active, and run it again as
 * if its worker had died.
 */
async function untilRedisTakesIt<T>({ shared, signal }: Context, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (signal.aborted || !isOfRedis(error)) throw error
      shared.queues.note(error)
      await sleep(REFUSED_AGAIN_MS, undefined, { signal }).catch(() => {})
    }
  }
}

const NOTHING_TAKEN: Taken = { covers: { epoch: '', number: 0 }, full: null }

async function attempt(job: RunJob, context: Context, taken: Taken): Promise<JobResult> {
  const { shared, signal } = context
  const { registry, alerts, metrics, log } = shared
  const slug = job.data.company
  const about = { company: slug, job: job.id ?? '' }
  if (signal.aborted) return await later(job, context, STOPPED_DELAY_MS)
  if (!registry.companies.has(slug)) await registry.refresh()
  const company = registry.companies.get(slug)
  if (!company) {
    const skipped = `${slug} is not configured.`
    await handOn(job, context, MAX_REFUSALS.notConfigured)
    log.warn(about, skipped)
    return { skipped }
  }
  if (!mayRunOn(shared.settings.host, company)) return await passOn(job, company, context)
  if (job.data.passes) await job.updateData({ ...job.data, passes: 0 })
  const { refusal, holder } = await lookBefore(job, company, context)
  if (refusal !== null) {
    log.error(about, refusal)
    await handOn(job, context, MAX_REFUSALS.wrongDirectory)
    if (job.name === 'sync') metrics.observeFailure(slug, 'incremental')
    await alerts.raise({ ...wrongDirectory(slug), message: refusal })
    throw new LoggedError(refusal)
  }
  await alerts.clear({ ...wrongDirectory(slug), message: 'The data directory is the right one again.' })
  // These only read the latest snapshot; if hosts share the log, they bring it up to date, and wait there.
  if (holder && job.name !== 'mail' && job.name !== 'publish') {
    log.info(about, `The company is held by ${describeHolder(holder)}; retrying later.`)
    return await later(job, context, HELD_DELAY_MS)
  }
  const slot = takeSlot(shared.slots, company)
  const ended = await carryOut(job, company, { ...context, taken, slot }).finally(slot.release)
  if (ended.kind === 'failed' && ended.exitCode === EXIT.held) {
    log.info(about, ended.message)
    return await later(job, context, HELD_DELAY_MS)
  }
  if (isHung(slot, ended)) throw new FatalError(describeHung(company, job.name))
  if (isInterrupted(ended) && (signal.aborted || slot.cut !== null)) {
    if (slot.cut === 'timeout') log.warn(about, describeTimeout(company))
    return await later(job, context, STOPPED_DELAY_MS)
  }
  return { ended }
}

type Look = { readonly refusal: string | null; readonly holder: LockHolder | null }

/** Returns whether the run may begin: this is the company's directory, and no other process holds it. */
async function lookBefore(job: RunJob, company: Company, context: Context): Promise<Look> {
  const { shared } = context
  try {
    const refusal = await untilRedisTakesIt(context, () => checkDirectory(shared.queues, company))
    return { refusal, holder: refusal === null ? await lockHolder(company.paths.lock) : null }
  } catch (error) {
    await leaveTraceOfError(error, job, company, shared)
    throw error
  }
}

type InSlot = Context & { readonly taken: Taken; readonly slot: Slot }

async function carryOut(job: RunJob, company: Company, context: InSlot): Promise<Ended> {
  const { name } = job
  if (name === 'sync') return await syncCompany(job, company, context)
  const ended = await runInProcess({
    ...context,
    company,
    order: { kind: name as 'publish' | 'mail' | 'maintain', job: job.id ?? '' },
    signal: AbortSignal.any([context.signal, context.slot.signal]),
  })
  if (name === 'mail') await judgeMail(job, company, ended, context)
  // If it failed, each tick tries again.
  if (name === 'publish') await judgeStore(context.shared.alerts, company)
  return ended
}

async function judgeMail(job: RunJob, company: Company, ended: Ended, context: InSlot): Promise<void> {
  const { alerts, log } = context.shared
  const about = { name: 'report_not_mailed', company: company.slug } as const
  if (ended.kind === 'mailed') await alerts.clear({ ...about, message: 'The report was mailed.' })
  if (ended.kind !== 'failed' || isInterrupted(ended) || ended.exitCode === EXIT.held) return
  if (ended.cause === 'mail_unreachable') {
    log.warn({ company: company.slug, job: job.id }, ended.message)
    await handOn(job, context, MAX_REFUSALS.mailServer, MAIL_AGAIN_MS)
  }
  await alerts.raise({ ...about, message: ended.message })
}

async function syncCompany(job: RunJob, company: Company, context: InSlot): Promise<Ended> {
  const { requests, queues, metrics } = context.shared
  const { slug } = company
  const { slot, taken } = context
  const { covers, full } = taken
  const updates = latestOnly((progress: Progress | null) => job.updateProgress({ covers, progress }))
  updates(null)
  const outcome = await runInProcess({
    ...context,
    company,
    signal: AbortSignal.any([context.signal, slot.signal]),
    order: { kind: 'sync', job: job.id ?? '', full: full !== null, restart: full?.restart ?? false },
    onBegun: () => {
      if (full) untilRedisTakesIt(context, () => requests.begun(slug, full)).catch(queues.note)
    },
    onNews: ({ progress, answers }) => {
      metrics.observeAnswers(slug, answers)
      if (progress) updates(progress)
    },
  })
  const ended = withCut(outcome, slot)
  await noteEnd(job, company, { ...context, ended })
  const isHeld = ended.kind === 'failed' && ended.exitCode === EXIT.held
  if (!isHeld) await untilRedisTakesIt(context, () => shareState(queues, company))
  await untilRedisTakesIt(context, () => requestPublish(queues, company))
  return ended
}

/** Records how a sync ended, for status, metrics, alerts and the heartbeat. */
export async function noteEnd(
  job: RunJob,
  company: Company,
  { ended, ...context }: InSlot & { readonly ended: Ended },
): Promise<void> {
  const { metrics, heartbeat, queues, alerts, log } = context.shared
  const { slug } = company
  const { slot, taken } = context
  const mode = taken.full === null ? 'incremental' : 'full'
  if (ended.kind === 'synced') metrics.observeRun(slug, ended.report, ended.seconds)
  if (isHung(slot, ended)) {
    const reason = describeHung(company, 'sync')
    await leaveTrace(context.shared, company, { reason, mode: ended.kind === 'synced' ? null : mode })
  } else if (ended.kind === 'synced') {
    if (isGoodRun(ended.report)) void heartbeat(company)
    const state = await readState(company.paths)
    if (state) await alertAfterRun(alerts, company, state)
    // Not awaited: a slow webhook must not hold up a run.
    alerts.deliver().catch(queues.note)
  } else if (ended.kind === 'failed' && ended.cause === 'newer_schema') {
    // In a rolling deploy the newer workers can take it.
    log.warn({ company: slug, job: job.id }, ended.message)
    await handOn(job, context, MAX_REFUSALS.newerSchema)
    await leaveTrace(context.shared, company, { reason: ended.message })
  } else if (ended.kind === 'failed' && ended.exitCode !== EXIT.held && !wasStopped(ended, context)) {
    await leaveTrace(context.shared, company, { reason: ended.message, mode })
  }
}

/** Returns whether a run exceeded RUN_TIMEOUT and loaded nothing; a retry would load nothing either. */
function isHung({ cut }: Slot, ended: Ended): boolean {
  return cut === 'timeout' && isInterrupted(ended) && !(ended.kind === 'synced' && ended.report.loaded > 0)
}

function describeHung({ slug, schedule }: Company, job: string): string {
  const limit = `${formatDuration(schedule.runTimeoutMs)} (RUN_TIMEOUT)`
  if (job === 'maintain') {
    return `${slug}: the nightly maintenance was stopped after ${limit}, before it finished. Check whether the disk of DATA_DIR responds. If the company is that large, raise RUN_TIMEOUT.`
  }
  if (job === 'publish') {
    return `${slug}: the publish to the object store was stopped after ${limit}. The next one does the rest. Check whether the object store responds.`
  }
  if (job === 'mail') {
    return `${slug}: the mail of the report was stopped after ${limit}, before it was sent. Check whether the mail server responds.`
  }
  return `${slug}: the run was stopped after ${limit} and had loaded nothing. Check whether the API responds. If the company is that large, raise RUN_TIMEOUT.`
}

function describeTimeout({ schedule }: Company): string {
  return `The run was stopped after ${formatDuration(schedule.runTimeoutMs)} (RUN_TIMEOUT). What it fetched is kept; it continues from there on its next turn.`
}

/** Corrects the message if the run was killed because it did not stop when asked: memory was not the cause. */
export function withCut(ended: Ended, { cut, company }: Slot): Ended {
  if (cut === null || ended.kind !== 'failed' || ended.cause !== 'killed') return ended
  const setting = cut === 'timeout' ? 'RUN_TIMEOUT' : 'WORKER_FAIR_SHARE'
  const message = `${company}: the run did not stop when asked (${setting}), and was killed. What it stored is kept; the next run continues from there.`
  return { ...ended, message }
}

function isInterrupted(ended: Ended): boolean {
  if (ended.kind === 'failed') return ended.exitCode === EXIT.interrupted
  return ended.kind === 'synced' && ended.report.status === 'interrupted'
}

/** Returns whether it ended early on request. If it did not and was killed, it is a failure. */
function wasStopped(ended: Ended, { signal, slot }: InSlot): boolean {
  return signal.aborted || (slot.cut !== null && isInterrupted(ended))
}

/** A job's failure that is already in the log. */
export class LoggedError extends FatalError {}

/** Returns the result of a job. Throws if its run failed, so that the board shows the job as failed. */
function conclude(result: JobResult): JobResult {
  if ('skipped' in result) return result
  const { ended } = result
  if (ended.kind === 'failed') throw new FatalError(ended.message)
  if (ended.kind === 'synced' && ended.report.status === 'failed') {
    throw new LoggedError(ended.report.error ?? 'The run failed.')
  }
  return result
}

function failedWith(error: unknown): Ended {
  const { message, exitCode } = explain(error)
  return { kind: 'failed', message, exitCode, cause: null }
}

/** Puts the job back: it keeps its place as the company's one waiting run. */
async function later(job: RunJob, { token }: Context, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}

/** Puts the job back for another worker, unless that has happened `times` times. */
async function handOn(
  job: RunJob,
  context: Context,
  times: number,
  delayMs = REFUSED_DELAY_MS,
): Promise<void> {
  const { refusals = 0 } = job.data
  if (refusals >= times) return
  await job.updateData({ ...job.data, refusals: refusals + 1 })
  await later(job, context, delayMs)
}

/** Leaves a job to the hosts that may run the company, which may be busy. */
async function passOn(job: RunJob, { slug, schedule }: Company, context: Context): Promise<JobResult> {
  const { alerts, log } = context.shared
  const { passes = 0 } = job.data
  if (passes < MAX_PASSES[job.name === 'mail' ? 'mail' : 'others']) {
    await job.updateData({ ...job.data, passes: passes + 1 })
    await later(job, context, Math.min(PASS_DELAY_MS.step * (passes + 1), PASS_DELAY_MS.max))
  }
  const skipped = `No worker of ${schedule.hosts?.join(', ')} took the job, and no other host may run the company (HOSTS).`
  log.warn({ company: slug, job: job.id }, skipped)
  if (job.name === 'mail') await alerts.raise({ name: 'report_not_mailed', company: slug, message: skipped })
  return { skipped }
}

function wrongDirectory(company: string) {
  return { name: 'wrong_directory', company } as const
}

/** Wraps `send` to keep only the latest of the updates that come while one is sent: Redis may be away for a while. */
function latestOnly<T>(send: (value: T) => Promise<unknown>): (value: T) => void {
  let waiting: readonly [T] | null = null
  let sending = false
  return async function update(value) {
    waiting = [value]
    if (sending) return
    sending = true
    while (waiting !== null) {
      const [next]: readonly [T] = waiting
      waiting = null
      await send(next).catch(() => {})
    }
    sending = false
  }
}

/**
 * Counts a run that could not begin or died, and so left no report, records it in the company's directory for `status`, and
 * raises an alert. Never throws: it already handles a failure.
 */
export async function leaveTrace(
  { metrics, alerts, queues, log }: Pick<Shared, 'metrics' | 'alerts' | 'queues' | 'log'>,
  company: Company,
  { reason, mode = 'incremental' }: { reason: string; mode?: 'incremental' | 'full' | null },
): Promise<void> {
  const { slug, paths } = company
  // A run that left a report is already counted.
  if (mode !== null) metrics.observeFailure(slug, mode)
  await noteFailure(paths, reason, new Date()).catch(error => {
    // Usually for the same reason: the directory is not writable.
    log.warn({ company: slug }, `The failure cannot be recorded for status: ${getMessage(error)}.`)
  })
  // Not awaited: Redis may be away, and waiting would block a slot.
  alerts
    .raise({ name: 'run_failed', company: slug, message: `A run could not begin, or died. ${reason}` })
    .then(() => alerts.deliver())
    .catch(queues.note)
}

/** Leaves the trace of an error that kept a run from beginning. A failure of Redis is not counted against a company. */
async function leaveTraceOfError(
  error: unknown,
  { name }: Pick<Job<JobData>, 'name'>,
  company: Company,
  shared: Shared,
): Promise<void> {
  if (name !== 'sync' || isOfRedis(error)) return
  await leaveTrace(shared, company, { reason: explain(error).message })
}
