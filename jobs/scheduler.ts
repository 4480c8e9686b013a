import type { Logger } from 'pino'
import { explain, getMessage } from '#src/lib/errors.ts'
import {
  type Company,
  type CompanyRegistry,
  computeJitterMs,
  computeNextTime,
} from './queues/company_registry.ts'
import { readKnownState } from './queues/known_state.ts'
import { type JobData, type JobName, type Queues, requestRun } from './queues/queue.ts'
import { isOfRedis } from './queues/redis_problem.ts'

/** Ticks end at once and are not needed afterwards. */
const TICK_OPTIONS = {
  attempts: 1,
  stackTraceLimit: 0,
  removeOnComplete: true,
  removeOnFail: { count: 20 },
} as const
/** A tick that is not taken within this is lost. */
const LATE_TICK_MS = 30_000
const TICK_EXISTS = /^Cannot create job scheduler iteration - job ID already exists/
/** Schedulers are checked this often, and set again if Redis lost them. */
const RECONCILE_MS = 10_000

export type Surroundings = {
  readonly queues: Queues
  readonly registry: CompanyRegistry
  readonly log: Logger
  readonly now: Date
  /** When this worker began to take ticks. */
  readonly startedAt: Date
}

type Wanted = {
  readonly id: string
  readonly name: JobName
  readonly company: Company
  readonly pattern: string
}
type Known = Awaited<ReturnType<Queues['ticks']['getJobSchedulers']>>[number]

/** Keeps the schedules in Redis up to date with the companies. */
export function keepSchedules(around: Omit<Surroundings, 'now'>): () => Promise<void> {
  const { registry, queues } = around
  let reconciled = { version: 0, ms: 0 }
  return async () => {
    const { version } = registry
    const changed = version !== reconciled.version
    // Not by the system clock: if that goes back by an hour, no tick comes until a scheduler is set again.
    if (!changed && performance.now() - reconciled.ms < RECONCILE_MS) return
    // Commands that wait for Redis to come back would then use an outdated time.
    if (reconciled.version !== 0 && queues.redis.status !== 'ready') return
    await reconcile({ ...around, now: new Date() }, { removeOthers: changed })
    reconciled = { version, ms: performance.now() }
  }
}

/**
 * Makes the schedulers in Redis match the configuration. Those that match are not touched: setting a scheduler again
 * would drop a tick that was missed while no worker ran.
 *
 * Schedulers of companies that are not configured are removed only with `removeOthers`: at the start, and after a
 * change of the configuration. If they always were, workers with different configurations would undo each other's
 * changes forever.
 */
async function reconcile(around: Surroundings, { removeOthers }: { removeOthers: boolean }): Promise<void> {
  const { queues, registry, log } = around
  const schedulers = await queues.ticks.getJobSchedulers(0, -1, true)
  const known = new Map(schedulers.map(scheduler => [scheduler.key, scheduler]))
  const asked = await queues.redis.hgetall(askedKey(queues))
  for (const company of registry.companies.values()) {
    // A failure for one company must not affect the others.
    try {
      await scheduleCompany(company, { known, asked: asked[company.slug] }, around)
    } catch (error) {
      // A failure of Redis affects all of them.
      if (isOfRedis(error)) throw error
      // Another worker took the tick since we looked.
      if (TICK_EXISTS.test(getMessage(error))) continue
      log.error({ company: company.slug }, `The company could not be scheduled: ${explain(error).message}`)
    }
  }
  const present = new Set([...registry.companies.values()].flatMap(listSchedulers).map(({ id }) => id))
  for (const { key, template } of removeOthers ? schedulers : []) {
    if (!present.has(key)) await forget(key, template, around)
  }
}

async function scheduleCompany(
  company: Company,
  { known, asked }: { known: ReadonlyMap<string, Known>; asked: string | undefined },
  around: Surroundings,
): Promise<void> {
  const { queues, log } = around
  let fresh = false
  for (const scheduler of listSchedulers(company)) {
    if (isRight(known.get(scheduler.id), scheduler, around)) continue
    const { id, name, pattern } = scheduler
    const repeat = { pattern, tz: company.schedule.timezone }
    // Set again, it would wait for that time once more, and lose its data when the one under way ends.
    if (await isTickUnderWay(id, repeat, around)) continue
    await queues.ticks.upsertJobScheduler(id, repeat, {
      name,
      data: { company: company.slug },
      opts: TICK_OPTIONS,
    })
    if (name === 'sync') fresh = true
    log.info({ company: company.slug }, `${name} is scheduled: ${pattern} (${company.schedule.timezone})`)
  }
  await catchUp(company, { ...around, fresh, asked })
}

/**
 * Returns whether the next tick, by the clock of this worker, is one that a worker whose clock is ahead has already taken. Then
 * the scheduler is set at a later check.
 */
async function isTickUnderWay(
  id: string,
  { pattern, tz }: { readonly pattern: string; readonly tz: string },
  { queues, now }: Surroundings,
): Promise<boolean> {
  const state = await queues.ticks.getJobState(`repeat:${id}:${computeNextTime(now.getTime(), pattern, tz)}`)
  return ['active', 'completed', 'failed'].includes(state)
}

/** At night in the company's time zone, when little else happens. */
const MAINTENANCE_CRON = '30 3 * * *'

function listSchedulers(company: Company): Wanted[] {
  const { slug, schedule } = company
  return [
    { id: `sync-${slug}`, name: 'sync', company, pattern: schedule.syncCron },
    { id: `maintain-${slug}`, name: 'maintain', company, pattern: MAINTENANCE_CRON },
    ...(schedule.reportCron === null
      ? []
      : [{ id: `mail-${slug}`, name: 'mail', company, pattern: schedule.reportCron } as const]),
  ]
}

/** Returns whether a scheduler is as configured, and its next tick is neither lost nor set too late by a clock that was ahead. */
function isRight(
  known: Known | undefined,
  { pattern, company }: Wanted,
  { now, startedAt }: Surroundings,
): boolean {
  const { timezone } = company.schedule
  if (!known || known.pattern !== pattern || known.tz !== timezone || known.next === undefined) return false
  const patience = Math.max(known.next, startedAt.getTime()) + LATE_TICK_MS
  return (
    now.getTime() <= patience &&
    known.next <= computeNextTime(now.getTime(), pattern, timezone) + LATE_TICK_MS
  )
}

async function forget(
  id: string,
  template: Known['template'],
  { queues, log }: Pick<Surroundings, 'queues' | 'log'>,
): Promise<void> {
  await queues.ticks.removeJobScheduler(id)
  const { company }: Partial<JobData> = template?.data ?? {}
  if (company && id === `sync-${company}`) await queues.redis.hdel(askedKey(queues), company)
  log.info(`${id} is no longer scheduled: it is not configured.`)
}

/** Requests a run if its tick did not: for a new company, for one whose schedule was set again, or after Redis lost its data. */
async function catchUp(
  company: Company,
  around: Surroundings & { fresh: boolean; asked: string | undefined },
): Promise<void> {
  const { queues, log, now, asked } = around
  const { slug } = company
  if (!isDue(company, asked, around)) return
  // Redis does not know about runs started by hand.
  const { state } = await readKnownState(queues, company)
  if (state && !isDue(company, state.last_run.started_at, around)) return
  if (await isQueued(queues, `sync-${slug}`)) return
  if (!(await isFirst(queues, slug))) return
  log.info(
    { company: slug },
    state ? 'A run was due but did not start; requesting it now.' : 'Requesting the first run.',
  )
  await requestDueRun(queues, slug, now)
}

/** Returns whether a run has been due since the last one, for so long that its tick is not still on its way. */
function isDue(
  company: Company,
  lastRun: string | undefined,
  { registry, now, startedAt, fresh }: Surroundings & { fresh: boolean },
): boolean {
  const { schedule } = company
  const lastMs = Date.parse(lastRun ?? '')
  // A time in the future was written by a clock that was ahead, and proves nothing.
  if (!(lastMs <= now.getTime())) return true
  const due = computeNextTime(lastMs, schedule.syncCron, schedule.timezone)
  const patienceMs = LATE_TICK_MS + computeJitterMs(company, registry.companies.size)
  return (fresh ? due : Math.max(due, startedAt.getTime()) + patienceMs) <= now.getTime()
}

/** Returns whether a run waits or is under way; a key left by a job that has ended or was lost does not count. */
async function isQueued({ runs }: Queues, deduplicationId: string): Promise<boolean> {
  const id = await runs.getDeduplicationJobId(deduplicationId)
  return id !== null && !['unknown', 'completed', 'failed'].includes(await runs.getJobState(id))
}

/**
 * Returns true for one of several workers that see a missing run at once: it requests the run. If it dies first, the others see
 * the missing run again.
 */
async function isFirst({ redis, prefix }: Queues, slug: string): Promise<boolean> {
  return (await redis.set(`${prefix}:catching-up:${slug}`, '1', 'PX', LATE_TICK_MS, 'NX')) !== null
}

/** Requests a run that is due, and records the request afterwards, so that a recorded one was surely made. */
export async function requestDueRun(queues: Queues, slug: string, now: Date): Promise<void> {
  await requestRun(queues, 'sync', slug)
  await noteAsked(queues, slug, now)
}

/** Records that a company's tick did what was due. */
export async function noteAsked(queues: Queues, slug: string, now: Date): Promise<void> {
  await queues.redis.hset(askedKey(queues), slug, now.toISOString())
}

function askedKey({ prefix }: Queues): string {
  return `${prefix}:asked`
}
