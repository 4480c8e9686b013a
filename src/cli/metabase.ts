import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, type MetabaseSettings, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/company.ts'
import { EXIT, FatalError } from '#src/errors.ts'
import { latestLink, readManifest } from '#src/lake/manifest.ts'
import { createMetabase } from '#src/metabase/client.ts'
import { type Provisioned, provision } from '#src/metabase/provision.ts'
import { stopSignal } from '#src/stop.ts'

/** A new Metabase reads some 450 columns in seconds; on a busy machine it can be a minute. */
const SYNC_MS = 180_000
const POLL_MS = 250

type Options = { company?: string; json?: true }

/** @param read throws FatalError (usage) naming every wrong variable. */
export function metabaseCommand(
  environment: Environment,
  read: (own: Environment) => MetabaseSettings,
): Command {
  return new Command('metabase')
    .description('Set up Metabase for a company: database, names, dashboards. Run again, it repairs.')
    .option('--company <slug>', 'company to show, instead of COMPANY')
    .option('--json', 'print one JSON object')
    .action(async (options: Options) => {
      const own = await environmentOf(environment, options.company)
      const { dataDir, company, sourceTimezone } = readSettings(own)
      const settings = read(own)
      const { lake } = companyPaths(dataDir, company)
      const catalogPath = await latestCatalog(lake)
      const signal = stopSignal(() => process.stderr.write('Stopping\n'))
      const { url, timeoutMs, adminPassword } = settings
      const client = createMetabase({ url, timeoutMs, signal, secrets: adminPassword ? [adminPassword] : [] })
      try {
        const done = await provision({
          ...{ client, access: settings, databaseId: settings.databaseId, company, lake, catalogPath },
          ...{ sourceTimezone, syncMs: SYNC_MS, pollMs: POLL_MS, signal },
          onStep: step => process.stderr.isTTY && process.stderr.write(`Metabase: ${step}\n`),
        })
        process.stdout.write(options.json ? `${JSON.stringify(done)}\n` : describe(done, settings.databaseId))
      } finally {
        await client.close()
      }
    })
}

/** The catalog that `latest` resolves to. */
async function latestCatalog(lake: string): Promise<string> {
  const directory = await realpath(latestLink(lake)).catch(() => null)
  const manifest = directory ? await readManifest(directory) : null
  if (directory && manifest?.directory === directory) return join(directory, 'catalog.duckdb')
  throw new FatalError(
    `There is no snapshot in ${lake} that Metabase could read. Run \`npm run sync\` (or \`npm run publish\`, where DATA_DIR was moved) first.`,
    EXIT.failed,
  )
}

function describe(done: Provisioned, known: number | null): string {
  const { changes, warnings, dashboards, databaseId, metabaseVersion } = done
  const lines = [
    ...changes.map(change => `- ${change}`),
    ...(changes.length === 0 ? ['Everything was as it should be.'] : []),
    ...warnings.map(warning => `! ${warning}`),
    '',
    `Metabase  ${metabaseVersion ?? 'of unknown version'}`,
    `Database  ${databaseId}`,
    ...dashboards.map(({ name, url }) => `${url}  ${name}`),
    ...(known === null
      ? ['', `For the worker to follow each publish: METABASE_DATABASE_ID=${databaseId}`]
      : []),
  ]
  return `${lines.join('\n')}\n`
}
