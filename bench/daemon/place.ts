import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { companyPaths } from '#src/store/company.ts'
import { latestLink, readManifest } from '#src/store/lake/manifest.ts'
import type { Server } from '../processes.ts'
import type { About } from '../world.ts'

const SOURCE_TIMEZONE = 'America/Sao_Paulo'
/** During the benchmark only the first run of each company is due. */
const ONCE_A_YEAR = '0 0 1 1 *'

export type Configured = {
  readonly slug: string
  readonly notices: number
  readonly seed: string
  readonly apiKey: string
}

/** `count` different companies; the same seed gives the same ones, but with new keys. */
export function companiesOf(count: number, about: { notices: number; seed: string }): Configured[] {
  return Array.from({ length: count }, (_, index) => ({
    slug: `company-${String(index + 1).padStart(2, '0')}`,
    notices: about.notices,
    seed: count === 1 ? about.seed : `${about.seed}:${index + 1}`,
    apiKey: randomBytes(16).toString('hex'),
  }))
}

/** Where workers run: their settings and data. */
export type Place = {
  readonly directory: string
  readonly dataDir: string
  readonly env: Readonly<Record<string, string>>
}

/** Writes the companies file and keys into a new directory, as in an installation. */
export async function preparePlace(
  directory: string,
  options: { companies: readonly Configured[]; server: Server; redisUrl: string; redisPrefix: string },
): Promise<Place> {
  const { companies, server, redisUrl, redisPrefix } = options
  const keys = join(directory, 'keys')
  const file = join(directory, 'companies.yaml')
  const dataDir = join(directory, 'data')
  await mkdir(keys, { recursive: true })
  for (const { slug, apiKey } of companies) await writeFile(join(keys, slug), apiKey, { mode: 0o600 })
  const lines = companies.map(
    ({ slug }) => `  ${slug}: { api_key_file: ${JSON.stringify(join(keys, slug))} }`,
  )
  await writeFile(file, `companies:\n${lines.join('\n')}\n`)
  const env = {
    API_BASE_URL: server.url,
    COMPANIES_FILE: file,
    DATA_DIR: dataDir,
    REDIS_URL: redisUrl,
    REDIS_PREFIX: redisPrefix,
    SYNC_CRON: ONCE_A_YEAR,
    MAINTENANCE_CRON: ONCE_A_YEAR,
    SOURCE_TIMEZONE,
  }
  return { directory, dataDir, env }
}

/** Tables whose rows in the latest snapshot differ from the API's documents, as `company: table`. */
export async function wrongTables(
  { dataDir }: Place,
  companies: readonly Configured[],
  about: readonly About[],
): Promise<string[]> {
  const wrong: string[] = []
  for (const [index, { slug }] of companies.entries()) {
    const { notices, rows } = about[index] as About
    const manifest = await readManifest(latestLink(companyPaths(dataDir, slug).lake))
    for (const [table, count] of Object.entries({ editais: notices, analyses: notices, ...rows })) {
      if (manifest?.tables[table]?.rows !== count) wrong.push(`${slug}: ${table}`)
    }
  }
  return wrong
}
