import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import { openSnapshot } from '#src/core/lake/read.ts'
import { wrongNotices } from '#tools/truth.ts'
import { type Costed, runCosted } from '../processes/costs.ts'
import { type Environment, npmScript } from '../processes/processes.ts'
import type { Company } from './api.ts'
import type { Living } from './living.ts'

const SOURCE_TIMEZONE = 'America/Sao_Paulo'
/** Only the first run of each company is due. */
export const ONCE_A_YEAR = '0 0 1 1 *'

/** The directory and environment of commands and workers: everything is written below the directory. */
export type Place = { readonly directory: string; readonly env: Environment & { readonly DATA_DIR: string } }

export function pathsOf({ env }: Place, slug = 'bench'): CompanyPaths {
  return companyPaths(env.DATA_DIR, slug)
}

/** Runs what this npm script runs there; npm itself is not measured. */
export async function runAt(
  place: Place,
  script: string,
  args: readonly string[] = [],
  onStart?: (pid: number) => void,
): Promise<Costed> {
  return await runCosted(await npmScript(script, ...args), { ...place, ...(onStart ? { onStart } : {}) })
}

/** Ids of the notices in the latest snapshot that differ from the company's world. */
export async function differences(place: Place, { slug, world }: Living): Promise<string[]> {
  const { db } = await openSnapshot(pathsOf(place, slug).lake)
  try {
    return await wrongNotices(sql => db.rows(sql), world)
  } finally {
    db.close()
  }
}

/** Creates a key for the served API. */
export async function createKey(place: Place): Promise<string> {
  return (await runAt(place, 'keys', ['create', '--description', 'bench'])).stdout.trim()
}

/** A new directory for one company. */
export async function placeOf(
  directory: string,
  { url, apiKey, slug }: { readonly url: string; readonly apiKey: string; readonly slug: string },
  settings: Environment = {},
): Promise<Place> {
  const env = {
    API_BASE_URL: url,
    API_KEY: apiKey,
    COMPANY: slug,
    DATA_DIR: join(directory, 'data'),
    SOURCE_TIMEZONE,
    LOG_LEVEL: 'warn',
    ...settings,
  }
  await mkdir(directory, { recursive: true })
  return { directory, env }
}

/** A new directory for several companies, with their file and their keys, as in an installation. */
export async function placeOfAll(
  directory: string,
  companies: readonly Pick<Company, 'slug' | 'apiKey'>[],
  settings: Environment,
): Promise<Place> {
  const keys = join(directory, 'keys')
  const file = join(directory, 'companies.yaml')
  await mkdir(keys, { recursive: true })
  for (const { slug, apiKey } of companies) await writeFile(join(keys, slug), apiKey, { mode: 0o600 })
  const lines = companies.map(
    ({ slug }) => `  ${slug}: { api_key_file: ${JSON.stringify(join(keys, slug))} }`,
  )
  await writeFile(file, `companies:\n${lines.join('\n')}\n`)
  const env = {
    COMPANIES_FILE: file,
    DATA_DIR: join(directory, 'data'),
    SYNC_CRON: ONCE_A_YEAR,
    SOURCE_TIMEZONE,
    ...settings,
  }
  return { directory, env }
}
