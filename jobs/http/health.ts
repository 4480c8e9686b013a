import { constants } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Queue } from 'bullmq'
import { type Company, type CompanyRegistry, checkVolumes } from '#jobs/queues/company_registry.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { askRedis } from '#jobs/queues/redis.ts'
import { isRefusal, probe } from '#jobs/queues/redis_problem.ts'
import type { Standby } from '#jobs/queues/standby.ts'
import { pluralize } from '#src/lib/count.ts'
import { findSystemCode, getMessage, ignoreMissing } from '#src/lib/errors.ts'
import { explainRedisRefusal } from '#src/lib/redis_refusal.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'

const REDIS_WITHIN_MS = 1000
/** With a smaller share of the file system free, runs are about to fail; an alert comes long before that. */
const MIN_FREE = 0.01
/** Limit of the broken entries shown: a wrong default breaks all of them. */
const MAX_SHOWN = 10

const NOT_ASKED = 'The object store of LOG_URL has not answered yet.'

/** `detail` is the problem, and what to do. */
type Check = { readonly ok: boolean; readonly detail?: string }

/** Whether this worker can take runs. */
type Readiness = {
  readonly ready: boolean
  readonly checks: {
    readonly redis: Check
    readonly directories: Check
    readonly configuration: Check
    readonly served: Check
    readonly clock: Check
    /** The object store of LOG_URL. */
    readonly shared_log: Check
  }
}

/** Blocks of a file system: all of them, and those that this user may still take. */
type Space = { readonly blocks: number; readonly bavail: number }

type Served = Pick<ServedCompanies, 'companies' | 'tooFarBehind'>

type Checked = {
  readonly registry: Pick<CompanyRegistry, 'companies' | 'problem' | 'broken'>
  readonly queues: Pick<Queues, 'redis' | 'prefix' | 'problem' | 'ticks' | 'runs'>
  /** The companies that this worker serves; absent if it serves nothing. */
  readonly served?: Served
  readonly standby: Pick<Standby, 'clocks' | 'stores'>
  readonly measureSpace?: (path: string) => Promise<Space>
}

/** Checks everything that a run needs; never throws, and ends within a second or so. */
export async function checkReadiness({
  registry,
  queues,
  served,
  standby,
  measureSpace = statfs,
}: Checked): Promise<Readiness> {
  const companies = [...registry.companies.values()]
  const directories = new Set(companies.map(({ settings }) => settings.dataDir))
  const checks = {
    redis: await checkRedis(queues),
    directories: verdict([
      ...(await wrongVolumes(queues, companies)),
      ...(await Promise.all([...directories].map(path => findProblem(path, measureSpace)))),
    ]),
    configuration: verdict(configurationProblems(registry)),
    served: checkServed(served),
    clock: verdict(standby.clocks),
    shared_log: verdict(standby.stores ?? [NOT_ASKED]),
  }
  return { ready: Object.values(checks).every(({ ok }) => ok), checks }
}

function verdict(problems: readonly (string | null)[]): Check {
  const detail = problems.filter(problem => problem !== null).join(' ')
  return detail ? { ok: false, detail } : { ok: true }
}

async function checkRedis({ redis, prefix, problem, ticks, runs }: Checked['queues']): Promise<Check> {
  try {
    // Probed with writes: a full Redis or a replica answers reads too.
    await askRedis(redis, REDIS_WITHIN_MS, () => probe(redis, prefix))
    const paused = await askRedis(redis, REDIS_WITHIN_MS, () => listPaused([ticks, runs]))
    return verdict(paused.map(name => `The queue ${name} is paused, so nothing runs: resume it on /queues.`))
  } catch (error) {
    if (isRefusal(error)) return { ok: false, detail: explainRedisRefusal(getMessage(error)) }
    const detail = problem()?.sentence ?? `${getMessage(error)} Start it, or set REDIS_URL.`
    return { ok: false, detail }
  }
}

/**
 * Names the companies that are served too far behind. The check fails only if all are: a worker must go on serving the others.
 */
function checkServed(served: Served | undefined): Check {
  const companies = served?.companies ?? []
  const behind = companies.flatMap(company => {
    const found = served?.tooFarBehind(company) ?? null
    return found === null
      ? []
      : [
          `${company}: what is served is older than what was known at ${found.since.toISOString()}. ${found.why}`,
        ]
  })
  if (behind.length === 0) return { ok: true }
  return { ok: behind.length < companies.length, detail: behind.slice(0, MAX_SHOWN).join(' ') }
}

async function listPaused(queues: readonly Queue[]): Promise<string[]> {
  const paused = await Promise.all(queues.map(queue => queue.isPaused()))
  return queues.filter((_, index) => paused[index]).map(({ name }) => name)
}

function configurationProblems({ companies, problem, broken }: Checked['registry']): (string | null)[] {
  const shown = [...broken.values()].slice(0, MAX_SHOWN)
  const more =
    broken.size > shown.length
      ? `And ${pluralize(broken.size - shown.length, 'other company', 'other companies')}.`
      : null
  const none = 'No company is configured: set API_BASE_URL and API_KEY, or COMPANIES_FILE.'
  return [problem ?? (companies.size > 0 ? null : none), ...shown, more]
}

/** Returns the problems of the companies' volumes; none while Redis is away, which is reported as a problem of its own. */
async function wrongVolumes(
  queues: Checked['queues'],
  companies: readonly Company[],
): Promise<readonly string[]> {
  const check = askRedis(queues.redis, REDIS_WITHIN_MS, () => checkVolumes(queues, companies))
  return await check.then(
    ({ problems }) => problems,
    () => [],
  )
}

async function findProblem(
  dataDir: string,
  measureSpace: (path: string) => Promise<Space>,
): Promise<string | null> {
  try {
    const present = await nearestPresent(dataDir)
    if (!(await stat(present)).isDirectory()) return `${dataDir} is not a directory. Set DATA_DIR to one.`
    await access(present, constants.W_OK | constants.X_OK)
    const { blocks, bavail } = await measureSpace(present)
    // Some file systems do not report their size.
    if (blocks === 0 || bavail / blocks >= MIN_FREE) return null
    return `The disk of ${dataDir} is full: under ${MIN_FREE * 100} % is free. Free some space; a shorter SNAPSHOT_KEEP and \`editais publish\` remove old snapshots.`
  } catch (error) {
    const code = findSystemCode(error) ?? getMessage(error)
    return `${dataDir} is not writable (${code}). Set DATA_DIR to a directory that this user may write.`
  }
}

/** Returns the path, or until the first run creates it, the nearest parent that exists. */
async function nearestPresent(path: string): Promise<string> {
  const isThere = (await ignoreMissing(stat(path))) !== null
  return isThere || dirname(path) === path ? path : await nearestPresent(dirname(path))
}
