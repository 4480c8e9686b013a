import { join } from 'node:path'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import {
  type Environment,
  type MetabaseOptions,
  readMetabaseSettings,
  readSettings,
} from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { AGAIN, stopSignal } from '#src/lib/exit.ts'
import { createMetabase } from './client.ts'
import { writeMetabaseState } from './follow.ts'
import { type Provisioned, provision } from './provision.ts'

/** A new Metabase reads some 900 columns in seconds; on a busy machine it can take a minute. */
const SYNC_MS = 180_000
const POLL_MS = 250

type Options = MetabaseOptions & { company?: string; json?: true }

export function createMetabaseCommand(environment: Environment): Command {
  return new Command('metabase')
    .description('Set up Metabase for a company: database, names, dashboards. Run it again to repair them.')
    .option('--company <slug>', 'company to show, instead of COMPANY')
    .option('--admin <email>', 'administrator who creates the API key; in a new Metabase, its first user')
    .option('--admin-password-file <path>', 'file with the password of that user')
    .option('--trino <address>', 'also connect to Trino, as Metabase reaches it: http://trino:8080/lake')
    .option('--json', 'print one JSON object')
    .action(async (options: Options) => {
      const own = await loadCompanyEnvironment(environment, options.company)
      const { dataDir, company, sourceTimezone } = readSettings(own)
      const settings = readMetabaseSettings(own, options)
      const { lake, metabase: path } = companyPaths(dataDir, company)
      const manifest = await requireLatest(lake)
      const catalogPath = join(manifest.directory, 'catalog.duckdb')
      const signal = stopSignal(() => process.stderr.write(`Stopping. ${AGAIN}\n`))
      const { url, adminPassword } = settings
      const changes: string[] = []
      const remember = async (
        database_id: number,
        reads: readonly string[],
        catalog_hash: string | null,
        error: string | null,
      ) =>
        await writeMetabaseState(path, {
          tried_at: new Date().toISOString(),
          database_id,
          reads,
          catalog_hash,
          error,
        })
      const client = createMetabase({ url, signal, secrets: adminPassword ? [adminPassword] : [] })
      try {
        const done = await provision({
          client,
          access: settings,
          company,
          catalogPath,
          sourceTimezone,
          resources: settings,
          trino: settings.trino,
          syncMs: SYNC_MS,
          pollMs: POLL_MS,
          signal,
          onChange: change => void changes.push(change),
          onRead: (id, reads) => remember(id, reads, null, UNFINISHED),
          onStep: step => process.stderr.isTTY && process.stderr.write(`Metabase: ${step}\n`),
        })
        // From now on the worker points Metabase to new snapshots, and keeps the snapshot that it reads.
        await remember(done.databaseId, [catalogPath], manifest.catalog_hash, null)
        process.stdout.write(options.json ? `${JSON.stringify(done)}\n` : describe(done))
      } catch (error) {
        if (changes.length > 0)
          process.stderr.write(`Before it failed, this command did this:\n${listed(changes)}`)
        throw error
      } finally {
        await client.close()
      }
    })
}

const UNFINISHED = '`editais metabase` did not finish. Run it again.'

const listed = (changes: readonly string[]) => changes.map(change => `- ${change}\n`).join('')

function describe(done: Provisioned): string {
  const { changes, warnings, dashboards, databaseId, trinoDatabaseId, metabaseVersion } = done
  const lines = [
    ...(changes.length > 0 ? [listed(changes).trimEnd()] : []),
    ...(changes.length === 0 ? ['Nothing to change.'] : []),
    ...warnings.map(warning => `! ${warning}`),
    '',
    `Metabase  ${metabaseVersion ?? 'unknown version'}`,
    `Database  ${databaseId}`,
    ...(trinoDatabaseId === null ? [] : [`Trino     ${trinoDatabaseId}`]),
    ...dashboards.map(({ name, url }) => `${url}  ${name}`),
    'From now on, the worker points Metabase to each new snapshot.',
  ]
  return `${lines.join('\n')}\n`
}
