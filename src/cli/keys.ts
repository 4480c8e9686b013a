import { Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import { readCompanies } from '#config/companies.ts'
import { formatLocalAddress, readServeSettings } from '#config/http.ts'
import { durationSetting, type Environment, readCommonSettings, readSettings } from '#config/settings.ts'
import { makeDataDirectory } from '#src/core/company/company.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import {
  ALL_COMPANIES,
  DEFAULT_SCOPES,
  findKeyState,
  isOfCompany,
  type KeyEntry,
  SCOPES,
  type Scope,
} from '#src/server/key_file.ts'
import { KeyStore, noValidKey, revokeKey, takePrefix } from '#src/server/keys.ts'
import { findKnownCompany } from './known_company.ts'

/** Maximum lifetime of a key: a longer one should have no expiry at all. */
const MAX_MS = 100 * 366 * 86_400_000

const day = z.iso.date()
const instant = z.iso.datetime({ offset: true })

/**
 * Returns when a key expires: after a duration such as 90d, at the end of a day in UTC, or at an instant.
 * @throws FatalError (usage) unless it is one of these and in the future.
 */
function parseExpiry(text: string, now: Date, option = '--expires'): Date {
  const expiresAt = parseExpiryText(text, now)
  if (expiresAt === null)
    throw new FatalError(
      `${option} ${text || '""'}: must be a duration such as 90d, a day such as 2027-06-30, or an instant with its offset such as 2027-06-30T18:00:00-03:00.`,
      EXIT.usage,
    )
  if (!(expiresAt.getTime() > now.getTime()))
    throw new FatalError(
      `${option} ${text}: must be in the future, not ${expiresAt.toISOString()}.`,
      EXIT.usage,
    )
  return expiresAt
}

/**
 * Returns how long a replaced key still works beside its successor, in milliseconds.
 * @throws FatalError (usage) unless it is a duration.
 */
function parseOverlap(text: string): number {
  const parsed = durationSetting.safeParse(text)
  if (parsed.success && parsed.data <= MAX_MS) return parsed.data
  throw new FatalError(
    `--overlap ${text || '""'}: must be a duration such as 24h or 7d; 0s refuses the old key at once.`,
    EXIT.usage,
  )
}

function parseExpiryText(text: string, now: Date): Date | null {
  const parsed = durationSetting.safeParse(text)
  if (parsed.success) return parsed.data <= MAX_MS ? new Date(now.getTime() + parsed.data) : null
  if (day.safeParse(text).success) return new Date(`${text}T23:59:59.999Z`)
  return instant.safeParse(text).success ? new Date(text) : null
}

/** How long to wait for another writer. A revoked key is already refused before this wait. */
const WAIT_MS = 2000

const EXPIRES = 'a duration (90d), a day (2027-06-30: until it ends in UTC) or an instant'

type Options = {
  company?: string
  description?: string
  expires?: string
  overlap?: string
  scopes?: readonly Scope[]
  maxRps?: number
  valid?: string
  url?: string
  json?: true
}

export function createKeysCommand(environment: Environment): Command {
  const command = new Command('keys').description(
    'Manage the API keys. Each gives access to one company; keys of operators may be for all.',
  )
  command
    .command('create')
    .description('create a key and show it, once')
    .option(
      '--company <slug>',
      'company that it gives access to (default: COMPANY; for watch and operate alone, all companies)',
    )
    .requiredOption('--description <text>', 'system that uses it: create one key for each')
    .option('--expires <when>', `when it expires: ${EXPIRES} (default: never)`)
    .option(
      '--scopes <list>',
      `what it may do: ${SCOPES.join(', ')} (default: ${DEFAULT_SCOPES.join(',')})`,
      parseScopes,
    )
    .option('--max-rps <number>', 'requests per second (default: SERVE_MAX_RPS)', wholeNumber(1))
    .option('--json', 'print JSON')
    .action((options: Options) => create(environment, options))
  command
    .command('link')
    .description('make a link that signs one person in to the pages, once')
    .option('--company <slug>', 'company whose notices the person sees (default: COMPANY)')
    .requiredOption('--description <text>', 'who gets it')
    .option('--scopes <list>', 'what the person may do (default: read)', parseScopes)
    .option('--valid <duration>', 'how long the link can be used', '24h')
    .option('--url <address>', 'where people find this server (default: PAGES_URL, or else this machine)')
    .action((options: Options) => link(environment, options))
  command
    .command('list')
    .description('list the keys by prefix')
    .option('--company <slug>', 'only the keys of this company')
    .option('--json', 'print JSON')
    .action((options: Options) => list(environment, options))
  command
    .command('rotate <prefix>')
    .description('replace a key with a new one; the old one still works for a while')
    .option('--overlap <duration>', 'how long the old key still works; 0s refuses it at once', '24h')
    .option(
      '--expires <when>',
      `when the new key expires: ${EXPIRES} (default: same lifetime as the old key)`,
    )
    .option('--json', 'print JSON')
    .action((prefix: string, options: Options) => rotate(environment, prefix, options))
  command
    .command('revoke <prefix>')
    .description('refuse a key from now on')
    .action((prefix: string) => revoke(environment, prefix))
  return command
}

async function create(environment: Environment, options: Options): Promise<void> {
  const now = new Date()
  const { dataDir } = readCommonSettings(environment)
  const { scopes = DEFAULT_SCOPES, maxRps = null } = options
  const isForAll = options.company === undefined && !isOfCompany({ scopes })
  const company = isForAll ? ALL_COMPANIES : await findKnownCompany(environment, dataDir, options.company)
  const description = readDescription(options)
  const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires, now)
  await makeDataDirectory(dataDir)
  const key = withKeys(KeyStore.open(dataDir, WAIT_MS), keys =>
    keys.create(company, description, now, expiresAt, { scopes, maxRps }),
  )
  if (options.json) {
    const expires = expiresAt?.toISOString() ?? null
    const shown = { key, company, description, expiresAt: expires, scopes, maxRps }
    process.stdout.write(`${JSON.stringify(shown)}\n`)
    return
  }
  const until = expiresAt ? `, valid until ${expiresAt.toISOString()}` : ''
  process.stdout.write(`${key}\n`)
  process.stderr.write(
    `API key of ${shownCompany(company)} for ${description}${until}. Store it now: it is not shown again.\n`,
  )
}

function readDescription(options: Options): string {
  const description = (options.description ?? '').trim()
  if (description !== '' && description.length <= 200 && !/[\p{Cc}]/u.test(description)) return description
  throw new FatalError('--description must be one line of 1 to 200 characters.', EXIT.usage)
}

/** Makes a link that signs one person in. Its code is a secret until it is used. */
async function link(environment: Environment, options: Options): Promise<void> {
  const now = new Date()
  const { dataDir } = readCommonSettings(environment)
  const { scopes = ['read'], valid = '' } = options
  if (!scopes.includes('read'))
    throw new FatalError('--scopes must include read: without it, nobody sees the pages.', EXIT.usage)
  const company = await findKnownCompany(environment, dataDir, options.company)
  const description = readDescription(options)
  const expiresAt = parseExpiry(valid, now, '--valid')
  const own = (await readCompanies(environment)).environments.get(company) ?? environment
  const url = options.url ?? readSettings(own).pagesUrl
  const base = URL.parse(url ?? formatLocalAddress(readServeSettings(environment)))
  if (base === null || !/^https?:$/.test(base.protocol) || base.pathname !== '/')
    throw new FatalError(
      '--url must be an address without a path, such as https://editais.example.com.',
      EXIT.usage,
    )
  await makeDataDirectory(dataDir)
  const code = withKeys(KeyStore.open(dataDir, WAIT_MS), keys =>
    keys.createLink(company, description, scopes, now, expiresAt),
  )
  process.stdout.write(`${new URL(`/editais/entrar?codigo=${code}`, base)}\n`)
  process.stderr.write(
    `A link for ${description}, which signs one browser in to ${company}, once, until ${expiresAt.toISOString()}. \`editais keys revoke\` ends it, and what it opened.${url === null ? ' Without PAGES_URL or --url, it opens on this machine only.' : ''}\n`,
  )
}

async function list(environment: Environment, { company, json }: Options): Promise<void> {
  const now = new Date()
  const { dataDir } = readCommonSettings(environment)
  const keys = KeyStore.openIfThere(dataDir, WAIT_MS)
  const all = keys ? withKeys(keys, () => keys.list(null)) : []
  const has = all.some(entry => entry.company === company)
  const only = company === undefined || has ? company : await findKnownCompany(environment, dataDir, company)
  const entries = all.filter(entry => only === undefined || entry.company === only)
  if (json) {
    const shown = entries.map(entry => ({ ...entry, state: findKeyState(entry, now) }))
    process.stdout.write(`${JSON.stringify(shown)}\n`)
    return
  }
  process.stdout.write(entries.length === 0 ? 'There are no keys yet.\n' : `${table(entries, now)}\n`)
}

function table(entries: readonly KeyEntry[], now: Date): string {
  // Most keys have the usual rights, and the table is wide enough.
  const areUsual = entries.every(entry => rightsInWords(entry) === DEFAULT_SCOPES.join(','))
  const rights = areUsual ? [] : ['rights']
  const columns = ['prefix', 'company', 'description', ...rights, 'created', 'last used', 'expires', 'state']
  return renderTable(
    columns,
    entries.map(entry => ({
      prefix: entry.prefix,
      company: shownCompany(entry.company),
      description: entry.description,
      rights: rightsInWords(entry),
      created: shown(entry.createdAt),
      'last used': shown(entry.lastUsedAt),
      expires: shown(entry.expiresAt),
      state: stateInWords(entry, now),
    })),
  )
}

function shownCompany(company: string): string {
  return company === ALL_COMPANIES ? 'all companies' : company
}

/** Formats a time to the second: milliseconds make the table wider than a terminal. */
function shown(time: string | null): string {
  return time === null ? '' : time.replace(/\.\d+Z$/, 'Z')
}

function rightsInWords({ scopes, maxRps }: KeyEntry): string {
  return (scopes.join(',') || 'link') + (maxRps === null ? '' : `, ${maxRps}/s`)
}

function stateInWords(entry: KeyEntry, now: Date): string {
  const state = findKeyState(entry, now)
  const by = entry.replacedBy === null ? '' : `replaced by ${entry.replacedBy}`
  if (state === 'replaced') return `${by} until ${shown(entry.expiresAt)}`
  const since = state === 'revoked' ? `revoked ${shown(entry.revokedAt)}` : state
  return by ? `${since}, ${by}` : since
}

async function rotate(environment: Environment, given: string, options: Options): Promise<void> {
  const now = new Date()
  const prefix = takePrefix(given)
  const overlapMs = parseOverlap(options.overlap ?? '')
  const expiresAt = options.expires === undefined ? undefined : parseExpiry(options.expires, now)
  const { dataDir } = readCommonSettings(environment)
  const before = KeyStore.openIfThere(dataDir, WAIT_MS)
  // Opening them for writing would create the file.
  if (!before) throw noValidKey(prefix)
  before.close()
  const { key, entry, replaced } = withKeys(KeyStore.open(dataDir, WAIT_MS), keys =>
    keys.rotate(prefix, { now, overlapMs, expiresAt }),
  )
  const { company, description } = entry
  if (options.json) {
    const shown = { key, company, description, expiresAt: entry.expiresAt }
    const old = { prefix: replaced.prefix, expiresAt: replaced.expiresAt, revokedAt: replaced.revokedAt }
    process.stdout.write(`${JSON.stringify({ ...shown, replaces: old })}\n`)
    return
  }
  const until = entry.expiresAt ? `, valid until ${entry.expiresAt}` : ''
  const old = overlapMs === 0 ? 'is refused from now on' : `still works until ${replaced.expiresAt}`
  process.stdout.write(`${key}\n`)
  process.stderr.write(
    `New API key of ${shownCompany(company)} for ${description}${until}. Store it now: it is not shown again. ${prefix} ${old}.\n`,
  )
}

function revoke(environment: Environment, given: string): void {
  const { dataDir } = readCommonSettings(environment)
  const prefix = takePrefix(given)
  const { entry, problem } = revokeKey(dataDir, prefix, { now: new Date(), waitMs: WAIT_MS })
  const about = entry ? `${prefix} (${shownCompany(entry.company)}, ${entry.description})` : prefix
  if (problem === null) {
    process.stdout.write(`${about} is refused from now on.\n`)
    return
  }
  const unknown = entry ? '' : ' Whether this key exists could not be checked.'
  process.stdout.write(
    `${about} is refused from now on, but the key file cannot be changed (${problem}). The revocation is kept in api_keys.revoked, until a server or command can write it to the key file.${unknown}\n`,
  )
}

function parseScopes(text: string): readonly Scope[] {
  const names = text.split(',').map(name => name.trim())
  const unknown = names.find(name => !(SCOPES as readonly string[]).includes(name))
  if (unknown !== undefined)
    throw new InvalidArgumentError(`There is no scope "${unknown}". Choose from ${SCOPES.join(', ')}.`)
  return SCOPES.filter(scope => names.includes(scope))
}

function withKeys<T>(keys: KeyStore, work: (keys: KeyStore) => T): T {
  using opened = closing(keys)
  return work(opened)
}
