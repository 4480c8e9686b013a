import { CronExpressionParser } from 'cron-parser'
import type { Logger } from 'pino'
import type { Schedule } from '#config/daemon.ts'
import { readState } from '#src/state.ts'
import { type JobName, type Queues, requestRun } from './queue.ts'
import type { Company, Roster } from './roster.ts'

/** Ticks end at once; nobody looks for them afterwards. */
const TICK_OPTIONS = {
  attempts: 1,
  stackTraceLimit: 0,
  removeOnComplete: true,
  removeOnFail: { count: 20 },
} as const

/** A tick is taken within this, unless it is lost. */
const LATE_TICK_MS = 30_000
/** Of a company's due times only the latest matters; ISO times compare as text. */
const CLAIM_LATER = `
  local known = redis.call('HGET', KEYS[1], ARGV[1])
  if known and known >= ARGV[2] then return 0 end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  return 1`

export type Surroundings = {
  readonly queues: Queues
  readonly roster: Roster
  readonly prefix: string
  readonly log: Logger
  readonly now: Date
  /** When this worker began to take ticks. */
  readonly startedAt: Date
}

type CatchUp = Omit<Surroundings, 'roster'> & {
  /** Its scheduler was set just now, so no tick can be on its way. */
  readonly fresh: boolean
}

type Wanted = {
  readonly id: string
  readonly name: JobName
  readonly company: Company
  readonly pattern: string
}

/**
 * Makes the schedulers in Redis those of the configuration. What agrees is not touched: to set a scheduler
 * again would drop a tick that was missed while no worker ran.
 *
 * Schedulers of companies that are not configured are removed where `removeOthers` says so: at the start and
 * when the configuration changed, not in between, or workers of differing configurations would never rest.
 */
export async function reconcile(
  around: Surroundings,
  { removeOthers }: { removeOthers: boolean },
): Promise<void> {
  const { queues, roster, log } = around
  const schedulers = await queues.ticks.getJobSchedulers(0, -1, true)
  const known = new Map(schedulers.map(scheduler => [scheduler.key, scheduler]))
  const fresh = new Set<string>()
  for (const scheduler of [...roster.companies.values()].flatMap(schedulersOf)) {
    const { id, name, company, pattern } = scheduler
    const { pattern: present, tz } = known.get(id) ?? {}
    known.delete(id)
    if (present === pattern && tz === company.schedule.timezone) continue
    await schedule(queues, scheduler)
    if (name === 'sync') fresh.add(company.slug)
    log.info({ company: company.slug }, `${name} is scheduled: ${pattern} (${company.schedule.timezone})`)
  }
  for (const id of removeOthers ? known.keys() : []) {
    await queues.ticks.removeJobScheduler(id)
    log.info(`${id} is scheduled no more: the company is not configured.`)
  }
  for (const company of roster.companies.values()) {
    await catchUp(company, { ...around, fresh: fresh.has(company.slug) })
  }
}

function schedulersOf(company: Company): Wanted[] {
  const { slug, schedule } = company
  return [
    { id: `sync-${slug}`, name: 'sync', company, pattern: schedule.syncCron },
    { id: `maintain-${slug}`, name: 'maintain', company, pattern: schedule.maintenanceCron },
  ]
}

async function schedule({ ticks }: Queues, { id, name, company, pattern }: Wanted): Promise<void> {
  const { slug, schedule } = company
  await ticks.upsertJobScheduler(
    id,
    { pattern, tz: schedule.timezone },
    { name, data: { company: slug }, opts: TICK_OPTIONS },
  )
}

/**
 * Asks for the run that a tick should have brought and did not: of a new company, of one whose schedule was
 * set again, or after Redis lost its data.
 */
async function catchUp(
  company: Company,
  { fresh, queues, prefix, log, now, startedAt }: CatchUp,
): Promise<void> {
  const { slug, paths, schedule } = company
  const due = lastDue(schedule, now)
  const waitedMs = now.getTime() - Math.max(Date.parse(due), startedAt.getTime())
  if (!fresh && waitedMs < LATE_TICK_MS) return
  const state = await readState(paths)
  if (state && state.last_run.started_at >= due) return
  if (await requestDueRun({ queues, prefix, company, now })) {
    log.info({ company: slug }, state ? `The run due at ${due} did not come: it runs now.` : 'Its first run.')
  }
}

/**
 * Asks for the run of the last time that the schedule names, once: a tick that comes late and whoever catches
 * up in the meantime, in whichever worker, mean the same run.
 * @returns whether it was asked for by this call.
 */
export async function requestDueRun(about: {
  queues: Queues
  prefix: string
  company: Company
  now: Date
}): Promise<boolean> {
  const { queues, prefix, company, now } = about
  const { slug, schedule } = company
  const first = await queues.redis.eval(CLAIM_LATER, 1, `${prefix}:due`, slug, lastDue(schedule, now))
  if (first === 0) return false
  await requestRun(queues, 'sync', slug)
  return true
}

/** The last time that the schedule names, at or before now; ISO. */
export function lastDue({ syncCron, timezone }: Schedule, now: Date): string {
  // What is due just now counts; the parser means before.
  const currentDate = new Date(now.getTime() + 1)
  return CronExpressionParser.parse(syncCron, { tz: timezone, currentDate }).prev().toDate().toISOString()
}
