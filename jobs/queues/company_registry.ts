import { stat } from 'node:fs/promises'
import { allBroken, companiesFile, readCompanies } from '#config/companies.ts'
import { readSchedule, type Schedule } from '#config/daemon.ts'
import {
  type Environment,
  NO_ADDRESS,
  readApiSettings,
  readSettings,
  type Settings,
} from '#config/settings.ts'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import { EXIT, FatalError, messageOf } from '#src/lib/errors.ts'

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
export function runsOn(host: string, { schedule }: Pick<Company, 'schedule'>): boolean {
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
  const file = companiesFile(environment)
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
      Object.assign(registry, { problem: sentenceOf(error, file.path), isInUse: false })
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
      companies.set(slug, companyOf(slug, own))
    } catch (error) {
      const where = file ? `${file}: ${slug}` : slug
      broken.set(slug, `${where}: ${sentenceOf(error)}`)
    }
  }
  if (companies.size === 0 && broken.size > 0) {
    throw allBroken([problem, ...broken.values()].filter(why => why !== null))
  }
  return { companies, broken, problem, isInUse: true, warnings }
}

function companyOf(slug: string, environment: Environment): Company {
  const settings = readSettings(environment)
  const schedule = readSchedule(environment)
  return { slug, environment, settings, schedule, paths: companyPaths(settings.dataDir, slug) }
}

function sentenceOf(error: unknown, path?: string): string {
  if (error instanceof FatalError) return error.message.replaceAll('\n', ' ')
  return `${path ? `${path}: ` : ''}${messageOf(error)}.`
}

/** Changes when the file does; null if there is no file. */
async function signature(path: string): Promise<string | null> {
  return await stat(path).then(
    ({ ino, size, mtimeMs, ctimeMs }) => `${ino} ${size} ${mtimeMs} ${ctimeMs}`,
    () => null,
  )
}
