import { stat } from 'node:fs/promises'
import { companiesFile, readCompanies } from '#config/companies.ts'
import { readSchedule, type Schedule } from '#config/daemon.ts'
import {
  type Environment,
  NO_ADDRESS,
  readApiSettings,
  readSettings,
  type Settings,
} from '#config/settings.ts'
import { type CompanyPaths, companyPaths } from '#src/company.ts'
import { EXIT, FatalError } from '#src/errors.ts'

/** A company as it is configured now. */
export type Company = {
  readonly slug: string
  /** What holds for it alone; no other company's key, but its own. */
  readonly environment: Environment
  readonly settings: Settings
  readonly schedule: Schedule
  readonly paths: CompanyPaths
}

/** The companies of this worker. They change with `config/companies.yaml`, without a restart. */
export type Roster = {
  readonly companies: ReadonlyMap<string, Company>
  /** Why the file that is there now could not be used: the companies are those of before. Null when it could. */
  readonly problem: string | null
  /** Grows with each change of the companies. */
  readonly version: number
  /** Reads the file again where it changed. */
  refresh(): Promise<void>
}

/**
 * Reads the companies for the first time.
 * @throws FatalError (usage) for a configuration that cannot work; later on it becomes `problem`.
 */
export async function openRoster(environment: Environment): Promise<Roster> {
  const file = companiesFile(environment)
  let seen = await signature(file.path)
  let companies = await readRoster(environment, { mayWait: file.named && seen === null })
  let problem: string | null = null
  let version = 1
  let refreshing: Promise<void> | null = null
  async function refresh(): Promise<void> {
    const now = await signature(file.path)
    if (now === seen) {
      problem = null
      return
    }
    try {
      if (now === null) throw new FatalError(`${file.path} is gone; its companies stay as they were.`)
      companies = await readRoster(environment, { mayWait: false })
      seen = now
      problem = null
      version += 1
    } catch (error) {
      if (!(error instanceof FatalError)) throw error
      // Seen only where it was read: what keeps it from being read may pass without changing it.
      problem = error.message
    }
  }
  return {
    get companies() {
      return companies
    },
    get problem() {
      return problem
    },
    get version() {
      return version
    },
    refresh() {
      // Whoever comes meanwhile waits for the same reading.
      refreshing ??= refresh().finally(() => {
        refreshing = null
      })
      return refreshing
    },
  }
}

async function readRoster(
  environment: Environment,
  { mayWait }: { mayWait: boolean },
): Promise<ReadonlyMap<string, Company>> {
  const { file, environments } = await readCompanies(environment)
  if (!file && !environment.API_BASE_URL?.trim()) {
    // Somebody named a file that is not there yet: it can come without a restart.
    if (mayWait) return new Map()
    throw new FatalError(
      `${NO_ADDRESS} For several companies, copy config/companies.example.yaml to config/companies.yaml.`,
      EXIT.usage,
    )
  }
  // The only company's key is looked at now; one of several must not keep the others from starting.
  if (!file) readApiSettings(environment)
  const companies = new Map<string, Company>()
  for (const [slug, own] of environments) companies.set(slug, companyOf(slug, own))
  return companies
}

function companyOf(slug: string, environment: Environment): Company {
  const settings = readSettings(environment)
  try {
    const schedule = readSchedule(environment)
    return { slug, environment, settings, schedule, paths: companyPaths(settings.dataDir, slug) }
  } catch (error) {
    if (!(error instanceof FatalError)) throw error
    throw new FatalError(`${slug}: ${error.message}`, error.exitCode)
  }
}

/** Differs when the file does; null where there is none. */
async function signature(path: string): Promise<string | null> {
  return await stat(path).then(
    ({ ino, size, mtimeMs, ctimeMs }) => `${ino} ${size} ${mtimeMs} ${ctimeMs}`,
    () => null,
  )
}
