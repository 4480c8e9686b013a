import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { CronExpressionParser } from 'cron-parser'
import { allBroken, findCompaniesFile, readCompanies } from '#config/companies.ts'
import { readSchedule, type Schedule } from '#config/daemon.ts'
import {
  type Environment,
  NO_ADDRESS,
  readApiSettings,
  readSettings,
  type Settings,
} from '#config/settings.ts'
import { type CompanyPaths, companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { ensureDirectoryId, readDirectoryId } from '#src/core/company/data_directory.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import type { Queues } from './queue.ts'

/** A file that could not be used is read again after this, even if unchanged: the cause may be gone. */
const READ_AGAIN_MS = 60_000

/** A company as it is configured now. */
export type Company = {
  readonly slug: string
  /** The environment of this company alone, with its own key and no other company's. */
  readonly environment: Environment
  readonly settings: Settings
  readonly schedule: Schedule
  readonly paths: CompanyPaths
}

/** Returns whether a host may run the company. */
export function mayRunOn(host: string, { schedule }: Pick<Company, 'schedule'>): boolean {
  return schedule.hosts === null || schedule.hosts.includes(host)
}

/** The companies of this worker. They change with `config/companies.yaml`, without a restart. */
export type CompanyRegistry = {
  readonly companies: ReadonlyMap<string, Company>
  /** Why the current file could not be used; then the companies stay as they were. Null if it could. */
  readonly problem: string | null
  /** Whether the current file is in use; `problem` is then about invalid company names in it. */
  readonly isInUse: boolean
  /** Companies whose entries cannot be used, and why; those that worked before stay as they were. */
  readonly broken: ReadonlyMap<string, string>
  /** One for each setting of earlier versions that the environment or the file still has. */
  readonly warnings: readonly string[]
  /** Grows with each change of the companies. */
  readonly version: number
  /** Reads the file again if it has changed. */
  refresh(): Promise<void>
}

type Read = Pick<CompanyRegistry, 'companies' | 'broken' | 'problem' | 'isInUse' | 'warnings'>

/**
 * Reads the companies for the first time.
 * @throws FatalError (usage) for a configuration that cannot work; on later reads it becomes `problem`.
 */
export async function openCompanyRegistry(environment: Environment): Promise<CompanyRegistry> {
  const file = findCompaniesFile(environment)
  let seen = await signature(file.path)
  const read = await readCompanyRegistry(environment, { mayWait: file.named && seen === null })
  const registry = { ...read, version: 1 }
  // Not by the system clock: if that goes back, it would delay the next read.
  let readMs = performance.now()
  let refreshing: Promise<void> | null = null
  async function refresh(): Promise<void> {
    const now = await signature(file.path)
    const isWhole = registry.problem === null && registry.broken.size === 0
    if (now === seen && (isWhole || performance.now() - readMs < READ_AGAIN_MS)) return
    readMs = performance.now()
    try {
      if (now === null) throw new FatalError(`${file.path} is gone; its companies stay as they were.`)
      const next = keepBroken(await readCompanyRegistry(environment, { mayWait: false }), registry.companies)
      if (now !== seen || next.broken.size !== registry.broken.size) registry.version += 1
      Object.assign(registry, next)
    } catch (error) {
      // Whatever the error, runs continue, and `problem` reports it to the operator.
      Object.assign(registry, { problem: composeSentence(error, file.path), isInUse: false })
    }
    seen = now
  }
  return Object.assign(registry, {
    refresh() {
      // Concurrent calls wait for the same read.
      refreshing ??= refresh().finally(() => {
        refreshing = null
      })
      return refreshing
    },
  })
}

/** Adds the previous configuration of each company whose entry is broken now. */
function keepBroken(next: Read, before: CompanyRegistry['companies']): Read {
  const companies = new Map(next.companies)
  for (const slug of next.broken.keys()) {
    const known = before.get(slug)
    if (known) companies.set(slug, known)
  }
  return { ...next, companies }
}

async function readCompanyRegistry(
  environment: Environment,
  { mayWait }: { mayWait: boolean },
): Promise<Read> {
  const { file, environments, problem, broken: unusable, warnings } = await readCompanies(environment)
  if (!file && !environment.API_BASE_URL?.trim()) {
    // The configured file does not exist yet; it can be added without a restart.
    if (mayWait) return { companies: new Map(), broken: new Map(), problem: null, isInUse: true, warnings }
    throw new FatalError(
      `${NO_ADDRESS} For several companies, copy config/companies.example.yaml to config/companies.yaml.`,
      EXIT.usage,
    )
  }
  // The key of a single company is checked now; a bad key of one of several must not keep the others from starting.
  if (!file) readApiSettings(environment)
  const companies = new Map<string, Company>()
  const broken = new Map(unusable)
  for (const [slug, own] of environments) {
    try {
      companies.set(slug, makeCompany(slug, own))
    } catch (error) {
      const where = file ? `${file}: ${slug}` : slug
      broken.set(slug, `${where}: ${composeSentence(error)}`)
    }
  }
  if (companies.size === 0 && broken.size > 0) {
    throw allBroken([problem, ...broken.values()].filter(why => why !== null))
  }
  return { companies, broken, problem, isInUse: true, warnings }
}

function makeCompany(slug: string, environment: Environment): Company {
  const settings = readSettings(environment)
  const schedule = readSchedule(environment)
  return { slug, environment, settings, schedule, paths: companyPaths(settings.dataDir, slug) }
}

function composeSentence(error: unknown, path?: string): string {
  if (error instanceof FatalError) return error.message.replaceAll('\n', ' ')
  return `${path ? `${path}: ` : ''}${getMessage(error)}.`
}

/** Changes when the file does; null if there is no file. */
async function signature(path: string): Promise<string | null> {
  return await stat(path).then(
    ({ ino, size, mtimeMs, ctimeMs }) => `${ino} ${size} ${mtimeMs} ${ctimeMs}`,
    () => null,
  )
}

/** The schedule has no time after `fromMs` and before `nextMs`. */
type Pause = { readonly fromMs: number; readonly nextMs: number }

/** A cache of the last pause, by schedule: there are few schedules, and they are looked up often. */
const pauses = new Map<string, Pause>()

/** Returns the next time of the schedule (a cron expression in its time zone) after `ms`, in ms since the epoch. */
export function computeNextTime(ms: number, pattern: string, timezone: string): number {
  const key = `${timezone} ${pattern}`
  const known = pauses.get(key)
  if (known && ms >= known.fromMs && ms < known.nextMs) return known.nextMs
  const next = CronExpressionParser.parse(pattern, { tz: timezone, currentDate: new Date(ms) }).next()
  const nextMs = next.getTime()
  pauses.set(key, { fromMs: ms, nextMs })
  return nextMs
}

const periods = new Map<string, number>()
/** Any time works if all workers use the same one. */
const PERIOD_FROM = new Date('2026-01-01T00:00:00Z')

/** Returns the time between two runs of the schedule; if its intervals differ, the first one. */
function periodMs(pattern: string, timezone: string): number {
  const key = `${timezone} ${pattern}`
  const known = periods.get(key)
  if (known !== undefined) return known
  const times = CronExpressionParser.parse(pattern, { tz: timezone, currentDate: PERIOD_FROM })
  const first = times.next().getTime()
  const period = times.next().getTime() - first
  periods.set(key, period)
  return period
}

/** A run scheduled for 8:00 should not start much later. */
const MAX_SPREAD_MS = 60_000
/** Share of a company's period: a schedule of every few seconds is spread less. */
const SPREAD_SHARE = 0.1

/**
 * Returns how long after its scheduled time a company's tick requests a run. Schedules fire at second 0, and a thousand
 * companies at once would be a burst for the API. Always the same for a company, whichever worker takes the tick; 0 if
 * there is only one company.
 */
export function computeJitterMs({ slug, schedule }: Company, companies: number): number {
  if (companies <= 1) return 0
  const share = createHash('sha256').update(slug).digest().readUInt32BE(0) / 2 ** 32
  return Math.floor(
    share * Math.min(MAX_SPREAD_MS, periodMs(schedule.syncCron, schedule.timezone) * SPREAD_SHARE),
  )
}

/** Companies that are looked up at a time; usually the first one that Redis knows decides. */
const LOOKED_UP = 32

/** Instead of a directory's id. */
const SHARED = 'shared'

/**
 * Ensures that all workers use the same directory for a company: the first one to sync it records the directory's id
 * in Redis. A kernel lock keeps writers apart on one volume; only this does on two. A company with a shared log
 * (LOG_URL) may have several directories: there, the log keeps writers apart.
 * @returns why the company is refused, if this worker's directory is another one; null if it is the recorded one.
 */
export async function checkDirectory(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { slug, paths, settings }: Company,
): Promise<string | null> {
  await makeDirectories(paths, settings.lake)
  const key = composeKey(prefix)
  // A worker without LOG_URL finds it, and is refused: it would write to a log of its own.
  if (settings.remoteLog !== null) {
    if ((await redis.hget(key, slug)) !== SHARED) await redis.hset(key, slug, SHARED)
    return null
  }
  const forget = `${composeCliStart(redis)} HDEL ${key} ${slug}`
  const id = await ensureDirectoryId(paths.id)
  await redis.hsetnx(key, slug, id)
  const known = await redis.hget(key, slug)
  if (known === id) return null
  if (known === SHARED)
    return `${slug} is refused: other workers of this Redis share its raw log in an object store, and LOG_URL is not set here. Set it as they do. If you moved the log back to this disk on purpose, stop those workers, and run \`${forget}\` against Redis.`
  return `${slug} is refused: ${paths.root} (id ${id}) is not the directory that the workers of this Redis use for it (id ${known}). Mount their volume at DATA_DIR. If you moved or recreated the data on purpose, run \`${forget}\` against Redis.`
}

/**
 * Records this directory as the one of the company, because its data were restored there.
 * @returns whether another one was recorded.
 */
export async function recordDirectory(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { slug, paths, settings }: Pick<Company, 'slug' | 'paths' | 'settings'>,
): Promise<boolean> {
  const own = settings.remoteLog === null ? await ensureDirectoryId(paths.id) : SHARED
  const known = await redis.hget(composeKey(prefix), slug)
  if (known === null || known === own) return false
  await redis.hset(composeKey(prefix), slug, own)
  return true
}

/** The volumes of the companies, as this worker sees them. */
export type Volumes = {
  /** One sentence for each DATA_DIR that is not the one that Redis knows. */
  readonly problems: readonly string[]
  /** Whether all are wrong, so that this worker can take no job at all. */
  readonly areAllWrong: boolean
}

/**
 * Returns whether each DATA_DIR is the volume that the workers of this Redis use. It is not if none of its companies has the
 * directory that Redis knows: then another volume is mounted, or none. Creates and records nothing, so that a worker
 * can check before it takes a job.
 */
export async function checkVolumes(
  queues: Pick<Queues, 'redis' | 'prefix'>,
  companies: Iterable<Company>,
): Promise<Volumes> {
  const all = [...companies]
  // With a shared log, any directory is right.
  const alone = all.filter(({ settings }) => settings.remoteLog === null)
  const volumes = Map.groupBy(alone, ({ settings }) => settings.dataDir)
  const found = await Promise.all(
    [...volumes].map(([dataDir, mounted]) => wrongVolume(queues, { dataDir, mounted })),
  )
  const problems = found.filter(problem => problem !== null)
  const areAllWrong = problems.length > 0 && problems.length === found.length && alone.length === all.length
  return { problems, areAllWrong }
}

/** Returns null if it is the right volume, or if Redis knows none of its companies yet. */
async function wrongVolume(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { dataDir, mounted }: { dataDir: string; mounted: readonly Company[] },
): Promise<string | null> {
  const key = composeKey(prefix)
  let problem: string | null = null
  for (let at = 0; at < mounted.length; at += LOOKED_UP) {
    const companies = mounted.slice(at, at + LOOKED_UP)
    const known = await redis.hmget(key, ...companies.map(({ slug }) => slug))
    for (const [index, { slug, paths }] of companies.entries()) {
      const id = known[index] ?? null
      if (id === null) continue
      const own = await readDirectoryId(paths.id).catch(() => null)
      if (own === id) return null
      problem ??= describeWrong({ dataDir, slug, own, id, forget: `${composeCliStart(redis)} DEL ${key}` })
    }
  }
  return problem
}

type Wrong = {
  readonly dataDir: string
  readonly slug: string
  /** The id of the company's directory here; null if it cannot be read. */
  readonly own: string | null
  /** The id that Redis knows instead. */
  readonly id: string
  /** The command that makes Redis forget it. */
  readonly forget: string
}

function describeWrong({ dataDir, slug, own, id, forget }: Wrong): string {
  return id === SHARED
    ? `${dataDir} is not used by the workers of this Redis, because they share the raw log of ${slug} in an object store and LOG_URL is not set here, so this worker takes no jobs of its companies: set LOG_URL as they do, or, if you moved the log back to this disk on purpose, stop those workers and run \`${forget}\` against REDIS_URL.`
    : `${dataDir} is not the volume that the workers of this Redis use (${slug} has ${own === null ? 'no readable id' : `the id ${own}`} here, and the id ${id} there), so this worker takes no jobs of its companies: mount their volume at DATA_DIR, or, if you moved or recreated the data on purpose, run \`${forget}\` against REDIS_URL.`
}

/** Returns the start of a command for redis-cli. On a cluster, it must be led to the node that has the key. */
function composeCliStart({ isCluster }: Queues['redis']): string {
  return isCluster ? 'redis-cli -c' : 'redis-cli -u "$REDIS_URL"'
}

function composeKey(prefix: string): string {
  return `${prefix}:directories`
}
