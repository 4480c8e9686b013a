import { randomUUID } from 'node:crypto'
import type { StatsFs } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { DaemonSettings, Schedule } from '#config/daemon.ts'
import {
  type Company,
  type CompanyRegistry,
  computeJitterMs,
  computeNextTime,
} from '#jobs/queues/company_registry.ts'
import { readKnownState } from '#jobs/queues/known_state.ts'
import { type Queues, readJobCompany } from '#jobs/queues/queue.ts'
import { askRedis, awaitFirstTry, RedisAwayError, type RedisClient } from '#jobs/queues/redis.ts'
import { isOfRedis, isRefusal } from '#jobs/queues/redis_problem.ts'
import type { Standby } from '#jobs/queues/standby.ts'
import type { CompanyState } from '#src/core/company/state.ts'
import { getMessage, ignoreMissing } from '#src/lib/errors.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import type { Alerts } from './alerts.ts'
import type { AlertName } from './table.ts'

/** Workers read a changed configuration at different times; what none of them has seen for this long is gone. */
const GONE_AFTER_MS = 2 * 60_000

type Span = {
  readonly first: string
  readonly last: string
  /** Since when a worker was present without a pause. */
  readonly attended: string
}

/** Since when the workers have known what is configured, without a pause: companies by slug, directories by path. */
type Seen = {
  /** Returns since when the workers have known this; null if none has seen it recently. */
  since(what: string): Date | null
}

/** Always present: if it is missing, Redis has lost its data, or is new. */
const WORKERS = '*'

/** The presence that a worker records: what it is configured for, and since when it has been running. */
type Present = {
  readonly present: readonly string[]
  readonly startedAt: Date
  readonly now: Date
  /** Whether the time in between, without a worker, counts as a pause. */
  readonly isPause: (what: string, from: Date, until: Date) => boolean
}

/** Records in Redis, for all workers, what this one is configured for, and drops what no worker is any more. */
async function noteSeen(redis: RedisClient, prefix: string, seen: Present): Promise<Seen> {
  const { now } = seen
  const present = [WORKERS, ...seen.present]
  const key = `${prefix}:seen`
  const spans = new Map<string, Span>()
  const gone: string[] = []
  for (const [what, text] of Object.entries(await redis.hgetall(key))) {
    const span = JSON.parse(text) as Span
    const isRecent = now.getTime() - Date.parse(span.last) <= GONE_AFTER_MS
    // What is present stays, even if no worker could record it for a while.
    if (isRecent || present.includes(what)) spans.set(what, span)
    else gone.push(what)
  }
  const lost = !spans.has(WORKERS)
  for (const what of present) spans.set(what, extended(spans.get(what), { ...seen, what, lost }))
  if (gone.length > 0) await redis.hdel(key, ...gone)
  const noted = present.map(what => [what, JSON.stringify(spans.get(what))] as const)
  await redis.hset(key, Object.fromEntries(noted))
  return {
    since(what) {
      const span = spans.get(what)
      if (!span) return null
      const { first, attended } = span
      return new Date(first > attended ? first : attended)
    },
  }
}

/** Extends the span to now. A time later than now comes from a clock that was ahead; ISO times sort as text. */
function extended(
  before: Span | undefined,
  { what, lost, startedAt, now, isPause }: Present & { what: string; lost: boolean },
): Span {
  const at = now.toISOString()
  const began = earliest(startedAt.toISOString(), at)
  // What existed before Redis lost its data is not new.
  if (!before) return { first: lost ? began : at, last: at, attended: began }
  const { first, last, attended } = before
  return {
    first: earliest(first, at),
    last: at,
    // This worker has been present since it started; for the time before, it relies on the others.
    attended: isPause(what, new Date(last), new Date(began)) ? began : earliest(attended, began),
  }
}

function earliest(a: string, b: string): string {
  return a < b ? a : b
}

/** Between the two, the alert stays as it is; with a single limit it would change with every snapshot. */
const LOW_SHARE = 0.1
const WELL_SHARE = 0.11

/** Longer than workers take to see a changed file: until then some still use the old one. */
const SETTLE_MS = 20_000

/** An absence of all workers counts as a pause if at least this many runs of a company were due in it. */
const PAUSE_PERIODS = 2
/** Clocks of several machines differ a little. */
const CLOCK_SKEW_MS = 60_000

/** A store that fails once needs no alert either. */
const STORE_SETTLE_MS = 30_000
/** A restart of Redis needs no alert. */
const REDIS_SETTLE_MS = 30_000
const REDIS_WITHIN_MS = 5000
/** A company is stale after this many of its periods without a good run: one can be late, or meet an API that restarts. */
const STALE_AFTER_PERIODS = 3
/** The policy of a Redis that keeps everything. */
const NO_EVICTION = 'noeviction'

/** Not its host and process id: containers may share both. */
const THIS_WORKER = randomUUID()

export type Inspection = {
  readonly settings: { readonly redis: Pick<DaemonSettings['redis'], 'prefix'> }
  readonly registry: Pick<CompanyRegistry, 'companies' | 'problem' | 'broken'> &
    Partial<Pick<CompanyRegistry, 'isInUse'>>
  readonly queues: Pick<Queues, 'redis' | 'runs' | 'problem'>
  readonly alerts: Alerts
  readonly log: Logger
  /** When this worker started. */
  readonly startedAt: Date
  readonly now: Date
  /** Whether this worker has a run of the company under way. */
  readonly isActive: (slug: string) => boolean
  /** One sentence for each volume of this worker that is not the right one. */
  readonly wrongVolumes?: readonly string[]
  /** The companies that this worker serves. */
  readonly served?: Pick<ServedCompanies, 'companies' | 'tooFarBehind'>
  readonly standby?: Pick<Standby, 'clocks' | 'stores' | 'redisAheadMs'>
  readonly readSpace?: (path: string) => Promise<Pick<StatsFs, 'blocks' | 'bavail'>>
  /** Identifies this worker among the others. */
  readonly worker?: string
}

/**
 * Checks what can be seen without a run; never throws. Every worker checks, and all reach the same result; without
 * Redis, each relies on what it knows.
 */
export async function inspect(inspection: Inspection): Promise<void> {
  const { settings, registry, queues, log, startedAt, now } = inspection
  const isPause = (what: string, from: Date, until: Date) => {
    const company = registry.companies.get(what)
    return company !== undefined && isOver(company.schedule, from, PAUSE_PERIODS, until)
  }
  const companies = [...registry.companies.values()]
  const directories = [...new Set(companies.map(company => company.settings.dataDir))]
  const present = [...registry.companies.keys(), ...registry.broken.keys(), ...directories]
  const seen = await inRedis(inspection, () =>
    noteSeen(queues.redis, settings.redis.prefix, { present, startedAt, now, isPause }),
  )
  const looks = [
    inspectRedis(inspection),
    ...(seen ? [forgetWhatIsGone(inspection, seen), inspectEviction(inspection)] : []),
    inspectConfiguration(inspection),
    inspectServed(inspection),
    ...listOwn(inspection).map(own => inspectOwn(own, inspection)),
    ...directories.map(directory => inspectDisk(directory, inspection)),
    inspectAges(companies, { ...inspection, seen: seen ?? NOTHING_SEEN }),
  ]
  // A check that fails must not affect the others.
  for (const look of await Promise.allSettled(looks)) {
    if (look.status === 'rejected') log.error(`A check for alerts failed: ${getMessage(look.reason)}`)
  }
}

const NOTHING_SEEN: Seen = { since: () => null }

/** Asks Redis; null while it is away or refuses, so that the other checks still run. */
async function inRedis<T>({ queues }: Inspection, ask: () => Promise<T>): Promise<T | null> {
  await awaitFirstTry(queues.redis, REDIS_WITHIN_MS)
  try {
    return await askRedis(queues.redis, REDIS_WITHIN_MS, ask)
  } catch (error) {
    if (error instanceof RedisAwayError || isOfRedis(error)) return null
    throw error
  }
}

/** Forgets the alerts of companies and disks that are gone, without a message: a company that was removed needs no recovery. */
async function forgetWhatIsGone({ alerts, now }: Inspection, seen: Seen): Promise<void> {
  for (const { name, company, subject, at } of await alerts.active()) {
    const what = name === 'disk_low' ? subject : company
    const isNew = now.getTime() - Date.parse(at) <= GONE_AFTER_MS
    if (what !== null && !isNew && seen.since(what) === null) await alerts.forget(what)
  }
}

const FILE_REFUSED =
  "The companies' file cannot be used. Until it is fixed, the previous configuration stays in use."
const NAMES_REFUSED =
  "Names in the companies' file cannot be used. Their entries are not synced; the rest of the file is in use."

async function inspectConfiguration(inspection: Inspection): Promise<void> {
  const { alerts, registry, queues, settings, worker = THIS_WORKER } = inspection
  const about = { name: 'wrong_configuration', company: null, settleMs: SETTLE_MS } as const
  const { problem, broken } = registry
  const wrong: WrongPart[] = [...(problem === null ? [] : [null]), ...broken.keys()]
  const elsewhere = await inRedis(inspection, () =>
    noteWrongParts(
      { redis: queues.redis, prefix: settings.redis.prefix, of: 'file' },
      { worker, wrong, now: byRedis(inspection) },
    ),
  )
  if (problem !== null) {
    await alerts.raise({
      ...about,
      message: `${registry.isInUse ? NAMES_REFUSED : FILE_REFUSED} ${problem}`,
      details: { host: hostname() },
    })
  } else if (!elsewhere?.has(null)) {
    await alerts.clear({ ...about, message: "The companies' file is in use again." })
  }
  await inspectEntries({ alerts, registry, elsewhere: elsewhere ?? new Set() })
}

async function inspectEntries({
  alerts,
  registry,
  elsewhere,
}: Pick<Inspection, 'alerts' | 'registry'> & { elsewhere: ReadonlySet<WrongPart> }): Promise<void> {
  const about = { name: 'wrong_configuration', settleMs: SETTLE_MS } as const
  for (const [company, why] of registry.broken) {
    const until = registry.companies.has(company)
      ? 'its previous configuration stays in use'
      : 'the company is not synced'
    const message = `Its entry in the companies' file cannot be used. Until it is fixed, ${until}. ${why}`
    await alerts.raise({ ...about, company, message, details: { host: hostname() } })
  }
  for (const { name, company } of await alerts.active()) {
    if (name !== about.name || company === null || registry.broken.has(company)) continue
    if (!registry.companies.has(company) || elsewhere.has(company)) continue
    await alerts.clear({ ...about, company, message: "Its entry in the companies' file is in use again." })
  }
}

/** A problem that one worker may have without the others. */
type Own = {
  readonly name: AlertName
  readonly of: Parameters<typeof noteWrongParts>[0]['of']
  readonly problems: readonly string[]
  readonly settleMs: number
  readonly intro: string
  /** The message when no worker has the problem any more. */
  readonly recovered: string
}

function listOwn({ wrongVolumes = [], standby }: Inspection): Own[] {
  const { clocks = [], stores = [] } = standby ?? {}
  return [
    {
      ...{ name: 'wrong_directory', of: 'volumes', problems: wrongVolumes, settleMs: SETTLE_MS },
      intro: 'A worker has a wrong volume. ',
      recovered: 'All workers have the right volumes again.',
    },
    {
      ...{ name: 'wrong_clock', of: 'clocks', problems: clocks, settleMs: SETTLE_MS },
      intro: '',
      recovered: 'The clocks of all workers are right again.',
    },
    {
      ...{ name: 'shared_log_unusable', of: 'stores', problems: stores ?? [], settleMs: STORE_SETTLE_MS },
      intro: '',
      recovered: 'All workers can use the object store of LOG_URL again.',
    },
  ]
}

async function inspectOwn(
  { name, of, problems, settleMs, intro, recovered }: Own,
  inspection: Inspection,
): Promise<void> {
  const { alerts, queues, settings, worker = THIS_WORKER } = inspection
  const about = { name, company: null, settleMs } as const
  const wrong = problems.length > 0 ? [null] : []
  const now = byRedis(inspection)
  const anywhere = await inRedis(inspection, () =>
    noteWrongParts({ redis: queues.redis, prefix: settings.redis.prefix, of }, { worker, wrong, now }),
  )
  if (problems.length > 0) {
    const message = `${intro}${problems.join(' ')}`
    await alerts.raise({ ...about, isLogged: true, message, details: { host: hostname() } })
  } else if (anywhere?.size === 0) await alerts.clear({ ...about, message: recovered })
}

/** Workers compare their times with those of others, and one of their clocks may be wrong. */
function byRedis({ now, standby }: Inspection): Date {
  return new Date(now.getTime() + (standby?.redisAheadMs ?? 0))
}

async function inspectServed(inspection: Inspection): Promise<void> {
  const { alerts, queues, settings, worker = THIS_WORKER, served } = inspection
  const now = byRedis(inspection)
  const behind = (served?.companies ?? []).flatMap(company => {
    const found = served?.tooFarBehind(company) ?? null
    return found === null ? [] : [{ company, ...found }]
  })
  const anywhere = await inRedis(inspection, () =>
    noteWrongParts(
      { redis: queues.redis, prefix: settings.redis.prefix, of: 'served' },
      { worker, wrong: behind.map(({ company }) => company), now },
    ),
  )
  for (const { company, since, why } of behind) {
    const message = `A host refuses to serve the company: what it has is older than what was known at ${since.toISOString()}. ${why}`
    await alerts.raise({ name: 'served_behind', company, message, details: { host: hostname() } })
  }
  for (const { name, company } of await alerts.active()) {
    if (name !== 'served_behind' || company === null || !anywhere || anywhere.has(company)) continue
    await alerts.clear({ name, company, message: 'All hosts serve the newest state again.' })
  }
}

async function inspectRedis({ alerts, queues }: Inspection): Promise<void> {
  const about = { name: 'redis_unusable', company: null, settleMs: REDIS_SETTLE_MS, isLogged: true } as const
  const problem = queues.problem()
  if (problem === null) await alerts.clear({ ...about, message: 'Redis answers again.' })
  else {
    await alerts.raise({
      ...about,
      message: `A worker cannot use Redis, so it starts no runs. ${problem.sentence}`,
    })
  }
}

async function inspectEviction(inspection: Inspection): Promise<void> {
  const { alerts, queues } = inspection
  const { redis } = queues
  const masters = 'nodes' in redis ? redis.nodes('master') : [redis]
  const info = async () => await Promise.all(masters.map(one => one.info('memory')))
  const infos = await inRedis(inspection, () => info().catch(refusesInfo))
  const policies = (infos ?? []).flatMap(text => /^maxmemory_policy:(\S+)/m.exec(text)?.[1] ?? [])
  // Some managed Redis services do not report it.
  if (policies.length === 0) return
  const policy = policies.find(one => one !== NO_EVICTION) ?? NO_EVICTION
  const about = { name: 'redis_evicts', company: null } as const
  if (policy === NO_EVICTION) {
    await alerts.clear({ ...about, message: 'Redis no longer drops data (maxmemory-policy noeviction).' })
    return
  }
  const command = redis.isCluster ? 'redis-cli --cluster call HOST:PORT' : 'redis-cli -u "$REDIS_URL"'
  await alerts.raise({
    ...about,
    message: `Redis may drop jobs when its memory is full (maxmemory-policy ${policy}). Run \`${command} CONFIG SET maxmemory-policy noeviction\`, and set it in Redis's own configuration, so that a restart keeps it.`,
    details: { maxmemory_policy: policy },
  })
}

/** Returns no lines if Redis refuses INFO, which is useful, but not required. Throws any other error. */
function refusesInfo(error: unknown): string[] {
  if (isRefusal(error)) return []
  throw error
}

async function inspectDisk(directory: string, { alerts, readSpace = statfs }: Inspection): Promise<void> {
  // The first run creates it.
  const space = await ignoreMissing(readSpace(directory))
  if (!space || space.blocks === 0) return
  const share = space.bavail / space.blocks
  const about = { name: 'disk_low', company: null, subject: directory } as const
  const percent = `${(Math.floor(share * 1000) / 10).toFixed(1)} %`
  if (share >= WELL_SHARE) {
    await alerts.clear({ ...about, message: `The disk of ${directory} has ${percent} free again.` })
  } else if (share < LOW_SHARE) {
    await alerts.raise({
      ...about,
      message: `The disk of ${directory} has only ${percent} free. Free some space or add some; a shorter SNAPSHOT_KEEP and \`editais publish\` remove old snapshots.`,
      details: { directory, free_share: share },
    })
  }
}

async function inspectAges(
  companies: readonly Company[],
  inspection: Inspection & { seen: Seen },
): Promise<void> {
  const active = await inspection.alerts.active()
  // If a company's runs fail, that explains why it is stale: one alert is enough.
  const failing = new Set(active.flatMap(({ name, company }) => (name === 'run_failed' ? [company] : [])))
  const looks = companies.map(company => inspectAge(company, { ...inspection, failing }))
  for (const look of await Promise.allSettled(looks)) if (look.status === 'rejected') throw look.reason
}

async function inspectAge(company: Company, inspection: Age): Promise<void> {
  const { alerts, settings, registry, startedAt, seen } = inspection
  const { slug, schedule } = company
  // Its ticks come this much after the times of its schedule.
  const now = new Date(inspection.now.getTime() - computeJitterMs(company, registry.companies.size))
  const { state } = await readKnownState(
    { redis: inspection.queues.redis, prefix: settings.redis.prefix },
    company,
  )
  const lastGood = findLastGood(state, inspection.now)
  const about = { name: 'stale', company: slug } as const
  if (lastGood && !isOver(schedule, lastGood, STALE_AFTER_PERIODS, now)) {
    await alerts.clear({ ...about, message: `A good run ended at ${lastGood.toISOString()}.` })
    return
  }
  // While no worker was running, no run was due.
  const from = latest([lastGood, seen.since(slug) ?? startedAt])
  if (!isOver(schedule, from, STALE_AFTER_PERIODS, now) || hasJustBegun(company, inspection, now)) return
  if (await isUnderWay(slug, inspection)) {
    // The first run may take hours. A later one gets one more period: it only begins when its time comes.
    if (!lastGood || !isOver(schedule, from, STALE_AFTER_PERIODS + 1, now)) return
  }
  if (inspection.failing.has(slug)) return
  await alerts.raise({
    ...about,
    message: describeAge(company, { state, lastGood, from }),
    details: { last_good_at: state?.last_good_at ?? null, last_error: state?.last_run.error ?? null },
  })
}

/**
 * Returns when the last good run ended. A time later than now counts as none: a clock that was ahead must not keep a company
 * from becoming stale.
 */
function findLastGood(state: CompanyState | null, now: Date): Date | null {
  const lastGood = state?.last_good_at ? new Date(state.last_good_at) : null
  return lastGood && lastGood.getTime() - now.getTime() <= CLOCK_SKEW_MS ? lastGood : null
}

/** Returns whether the worker has just started, and may still be catching up on runs that were due before. */
function hasJustBegun({ schedule }: Company, { startedAt }: Inspection, now: Date): boolean {
  return startedAt <= now && !isOver(schedule, startedAt, 1, now)
}

/** Returns whether at least `periods` times of the schedule have passed since `from`. */
function isOver({ syncCron, timezone }: Schedule, from: Date, periods: number, now: Date): boolean {
  let ms = from.getTime()
  for (let period = 0; period < periods; period += 1) {
    ms = computeNextTime(ms, syncCron, timezone)
    if (ms > now.getTime()) return false
  }
  return true
}

function latest(dates: readonly (Date | null)[]): Date {
  return new Date(Math.max(...dates.map(date => date?.getTime() ?? 0)))
}

type Age = Inspection & { readonly seen: Seen; readonly failing: ReadonlySet<string | null> }

/** Returns whether a run of the company is under way in any worker. */
async function isUnderWay(slug: string, inspection: Inspection): Promise<boolean> {
  const { isActive, queues } = inspection
  if (isActive(slug)) return true
  const active = await inRedis(inspection, () => queues.runs.getActive())
  return (active ?? []).some(job => job?.name === 'sync' && readJobCompany(job) === slug)
}

function describeAge(
  { slug, schedule }: Company,
  { state, lastGood, from }: { state: CompanyState | null; lastGood: Date | null; from: Date },
): string {
  const noted = state?.last_good_at ?? null
  const before =
    noted === null ? 'or ever before' : `and the last one is recorded for ${noted}, which is in the future`
  const since = lastGood
    ? `No good run since ${lastGood.toISOString()}`
    : `No good run since ${from.toISOString()}, ${before}`
  const what = `${since}: ${STALE_AFTER_PERIODS} periods of ${schedule.syncCron}.`
  const error = state?.last_run.error
  const why = error ? `The last run reported: ${error}` : "See the worker's log for the cause."
  return `${what} ${why} \`editais status --company ${slug}\` shows more.`
}

/** The part that a worker cannot use or serve: a company; null for its whole file, volume, clock or store. */
type WrongPart = string | null

/** The subjects that a worker reports about; with the name of its hash in Redis. */
const HASHES = {
  file: 'misread',
  volumes: 'wrong_volumes',
  clocks: 'wrong_clocks',
  stores: 'unusable_stores',
  served: 'served_behind',
} as const

type Note = { readonly at: string; readonly misread: readonly WrongPart[] }

/**
 * Records in Redis what this worker cannot use. Each worker may have its own file and volumes, and one with correct ones
 * must not clear the alert of another.
 * @param now by Redis's clock: that of a worker may be wrong.
 * @returns what any worker, including this one, recently could not use.
 */
async function noteWrongParts(
  { redis, prefix, of }: { redis: RedisClient; prefix: string; of: keyof typeof HASHES },
  { worker, wrong, now }: { worker: string; wrong: readonly WrongPart[]; now: Date },
): Promise<ReadonlySet<WrongPart>> {
  const key = `${prefix}:${HASHES[of]}`
  const note: Note = { at: now.toISOString(), misread: wrong }
  if (wrong.length > 0) await redis.hset(key, worker, JSON.stringify(note))
  const all = new Set<WrongPart>()
  const gone: string[] = []
  for (const [who, text] of Object.entries(await redis.hgetall(key))) {
    const { at, misread: theirs } = who === worker ? note : (JSON.parse(text) as Note)
    // A worker that died cannot record that its file was fixed.
    const isRecent = now.getTime() - Date.parse(at) <= GONE_AFTER_MS
    if (isRecent && theirs.length > 0) for (const what of theirs) all.add(what)
    else gone.push(who)
  }
  if (gone.length > 0) await redis.hdel(key, ...gone)
  return all
}
