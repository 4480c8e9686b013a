import { Command, Option } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
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
  const { company: slug } = readSettings(await environmentOf(environment, company))
  const text = description.trim()
  if (text === '' || text.length > 200 || /[\p{Cc}]/u.test(text))
    throw new FatalError('--description must be a line of 1 to 200 characters.', EXIT.usage)
  const dataDir = dataDirOf(environment)
  await makeDataDirectory(dataDir)
  const key = withKeys(KeyStore.open(dataDir, WAIT_MS), keys => keys.create(slug, text, new Date()))
  if (json) {
    process.stdout.write(`${JSON.stringify({ key, company: slug, description: text })}\n`)
    return
  }
  process.stdout.write(`${key}\n`)
  process.stderr.write(`The key of ${slug} for ${text}. It is not shown again: put it where it is used.\n`)
}

async function list(environment: Environment, { company, json }: Options): Promise<void> {
  const slug = company === undefined ? null : readSettings(await environmentOf(environment, company)).company
  const entries = withKeys(existingKeys(environment), keys => keys.list(slug)) ?? []
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

function revoke(environment: Environment, prefix: string): void {
  // Who gives the whole key means its beginning; it is not repeated.
  const shown = prefix.split('_').slice(0, 2).join('_')
  const entry = withKeys(existingKeys(environment), keys => keys.revoke(shown, new Date()))
  if (!entry)
    throw new FatalError(`There is no valid key ${shown}. \`npm run keys -- list\` shows them.`, EXIT.usage)
  process.stdout.write(`${entry.prefix} (${entry.company}, ${entry.description}) is refused from now on.\n`)
}

function dataDirOf(environment: Environment): string {
  return readSettings({ ...environment, COMPANY: undefined }).dataDir
}

function existingKeys(environment: Environment): KeyStore | null {
  return KeyStore.openIfThere(dataDirOf(environment), WAIT_MS)
}

/** @returns null where there are no keys. */
function withKeys<T>(keys: KeyStore | null, work: (keys: KeyStore) => T): T | null {
  try {
    return keys && work(keys)
  } finally {
    keys?.close()
  }
}
