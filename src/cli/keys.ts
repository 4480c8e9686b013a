import { Command, Option } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings, slug } from '#config/settings.ts'
import { makeDataDirectory } from '#src/company.ts'
import { EXIT, FatalError } from '#src/errors.ts'
import { type KeyEntry, KeyStore } from '#src/mirror/keys.ts'
import { renderTable } from './table.ts'

/** For whoever else writes. */
const WAIT_MS = 5000

type Options = { company?: string; description?: string; json?: true }

export function keysCommand(environment: Environment): Command {
  const command = new Command('keys').description(
    'API keys for `npm run serve`: each sees the notices of one company.',
  )
  command
    .command('create')
    .description('make a key and show it, once')
    .option('--company <slug>', 'whose notices it sees (default: COMPANY)')
    .requiredOption('--description <text>', 'which system uses it: one key for each')
    .addOption(json())
    .action((options: Options) => create(environment, options))
  command
    .command('list')
    .description('show the keys by what they begin with')
    .option('--company <slug>', 'only those of this company')
    .addOption(json())
    .action((options: Options) => list(environment, options))
  command
    .command('revoke <prefix>')
    .description('refuse a key from now on')
    .action((prefix: string) => revoke(environment, prefix))
  return command
}

function json(): Option {
  return new Option('--json', 'print JSON')
}

async function create(environment: Environment, { company, description = '', json }: Options): Promise<void> {
  const { company: slugOf } = readSettings(await environmentOf(environment, company))
  const text = description.trim()
  if (text === '' || text.length > 200 || /[\p{Cc}]/u.test(text))
    throw new FatalError('--description must be a line of 1 to 200 characters.', EXIT.usage)
  const key = await withKeys(environment, keys => keys.create(slugOf, text, new Date()))
  if (json) {
    process.stdout.write(`${JSON.stringify({ key, company: slugOf, description: text })}\n`)
    return
  }
  process.stdout.write(`${key}\n`)
  process.stderr.write(`The key of ${slugOf} for ${text}. It is not shown again: put it where it is used.\n`)
}

async function list(environment: Environment, { company, json }: Options): Promise<void> {
  const entries = await withKeys(environment, keys => keys.list(checkedSlug(company)))
  if (json) {
    process.stdout.write(`${JSON.stringify(entries)}\n`)
    return
  }
  process.stdout.write(entries.length === 0 ? 'There is no key yet.\n' : `${table(entries)}\n`)
}

function table(entries: readonly KeyEntry[]): string {
  const columns = ['prefix', 'company', 'description', 'created', 'last used', 'revoked']
  return renderTable(
    columns,
    entries.map(entry => ({
      ...{ prefix: entry.prefix, company: entry.company, description: entry.description },
      ...{ created: entry.createdAt, 'last used': entry.lastUsedAt ?? '', revoked: entry.revokedAt ?? '' },
    })),
  )
}

async function revoke(environment: Environment, prefix: string): Promise<void> {
  // Who gives the whole key means its beginning; it is not repeated.
  const shown = prefix.split('_').slice(0, 2).join('_')
  const entry = await withKeys(environment, keys => keys.revoke(shown, new Date()))
  if (!entry)
    throw new FatalError(`There is no valid key ${shown}. \`npm run keys -- list\` shows them.`, EXIT.usage)
  process.stdout.write(`${entry.prefix} (${entry.company}, ${entry.description}) is refused from now on.\n`)
}

function checkedSlug(company: string | undefined): string | null {
  if (company === undefined) return null
  const result = slug.safeParse(company)
  if (result.success) return result.data
  throw new FatalError(`--company ${result.error.issues[0]?.message}.`, EXIT.usage)
}

async function withKeys<T>(environment: Environment, work: (keys: KeyStore) => T): Promise<T> {
  const { dataDir } = readSettings({ ...environment, COMPANY: undefined })
  await makeDataDirectory(dataDir)
  const keys = KeyStore.open(dataDir, WAIT_MS)
  try {
    return work(keys)
  } finally {
    keys.close()
  }
}
