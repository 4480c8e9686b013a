import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { z } from 'zod'
import { STATUSES } from '#schema/notice.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { checkKey, readSecretFile } from '#src/lib/http/credentials.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { decodeText } from '#src/lib/text_file.ts'
import {
  type LakeSettings,
  lakeShape,
  parseTrinoTarget,
  type RemoteLakeSettings,
  readRemoteLakeSettings,
  readS3Settings,
  remoteLakeShape,
  s3Place,
  type TrinoTarget,
} from './lake.ts'
import { type MailSettings, mailShape, readAddressedMail } from './mail.ts'
import { MERGED_SETTINGS, serverAddress } from './setting_kinds.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const DURATION_UNITS_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `90s`, `15m`, `24h`, `30d` as milliseconds. */
export const durationSetting = z
  .string()
  .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, 'must be a duration such as 90s, 15m, 24h or 30d')
  .transform(text => {
    const [, amount, unit] = /^([\d.]+)([a-z]+)$/.exec(text) as unknown as [
      string,
      string,
      keyof typeof DURATION_UNITS_MS,
    ]
    return Number(amount) * DURATION_UNITS_MS[unit]
  })

/** Formats a duration for people, in the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  const units = Object.entries(DURATION_UNITS_MS).toReversed()
  const [unit, unitMs] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1]
  return `${ms / unitMs}${unit}`
}

export const wholeNumberSetting = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine(value => value >= min && value <= max, `must be a whole number from ${min} to ${max}`)

/** A setting that is on or off. */
export const onOff = z.enum(['on', 'off'], 'must be on or off')

const baseUrl = serverAddress(
  'must be an http or https address such as https://api.example.com (without /api/v1)',
).transform(url => url.replace(/\/api\/v1(\/editais)?$/, ''))

const metabaseUrl = serverAddress('must be an http or https address such as http://localhost:3000')

const PAGES_URL_RULE = 'must be an address without a path, such as https://editais.example.com'
const pagesUrl = serverAddress(PAGES_URL_RULE).refine(url => new URL(url).pathname === '/', PAGES_URL_RULE)

/** On Metabase's machine. The driver takes it as one of several options, which `&` separates. */
const spillDirectory = z
  .string()
  .regex(/^(\/|[A-Za-z]:)[^&=?]*$/, 'must be an absolute path on the machine of Metabase, without &, = and ?')

/** `24h` for every notice still in the funnel, or `24h,30d` to set the closed ones' as well; `off` for never. */
const maxAge = z.string().transform((text, context) => {
  if (text === 'off') return { openMs: null, closedMs: null }
  const [open, closed = '30d', ...rest] = text.split(',').map(part => durationSetting.safeParse(part.trim()))
  const closedAge = typeof closed === 'string' ? durationSetting.safeParse(closed) : closed
  if (open && typeof open !== 'string' && open.success && closedAge.success && rest.length === 0) {
    return { openMs: open.data, closedMs: closedAge.data }
  }
  context.addIssue({ code: 'custom', message: 'must be a duration such as 24h, two as in 24h,30d, or off' })
  return z.NEVER
})

const DEFAULT_TIME_ZONE = 'America/Sao_Paulo'

/**
 * Checking one takes 0.3 ms, which would add up for a thousand companies each time their file is read. The first one
 * takes 20 ms, a twentieth of a run that finds nothing new.
 */
const knownTimeZones = new Set<string>([DEFAULT_TIME_ZONE])

/** A company's time zone: of what the API sends without an offset, of what people read, and of schedules. */
export const timeZoneSetting = z
  .string()
  .refine(isTimeZone, 'is not a time zone such as America/Sao_Paulo, Etc/UTC or Brazil/East')
  .default(DEFAULT_TIME_ZONE)

/**
 * Returns whether the name is that of a time zone: any of its names, of which `Intl.supportedValuesOf` lists only one. Rejects
 * offsets, as DuckDB does.
 */
function isTimeZone(name: string): boolean {
  if (knownTimeZones.has(name)) return true
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
  } catch {
    return false
  }
  knownTimeZones.add(name)
  return true
}

/** A comma-separated list of phases of the contract. */
export const statusList = z.string().transform((text, context) => {
  const statuses = text.split(',').map(part => part.trim())
  const unknown = statuses.find(status => !(STATUSES as readonly string[]).includes(status))
  if (unknown === undefined) return [...new Set(statuses)]
  context.addIssue({ code: 'custom', message: `unknown status: ${unknown}. Known: ${STATUSES.join(', ')}` })
  return z.NEVER
})

export const SLUG_RULE = 'must be a short name of a-z, 0-9, - and _, such as acme'

/** A company's slug: it names a directory, so it cannot leave DATA_DIR. */
export const slug = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, SLUG_RULE)

/**
 * Made absolute. DuckDB reads every path as a pattern: it would also read other directories that match, and it
 * would parse what follows a `?` as options.
 */
const dataDirectory = z.string().transform((text, context) => {
  const path = resolve(text)
  if (!/[*?[]/.test(path)) return path
  const message = 'must have no *, ? or [ in its absolute path: DuckDB would read them as a pattern'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** An API that refuses or restarts needs a moment; the pauses double, so five retries cover half a minute. */
const API_RETRY_MS = 500

/** From most to least verbose. */
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

const schema = z.object({
  API_BASE_URL: baseUrl.optional(),
  API_CONCURRENCY: wholeNumberSetting(1, 256).default(8),
  API_MAX_RPS: wholeNumberSetting(0, 100_000).default(0),
  API_TIMEOUT_MS: wholeNumberSetting(1, 600_000).default(30_000),
  API_RETRIES: wholeNumberSetting(0, 20).default(5),
  COMPANY: slug.default('default'),
  DATA_DIR: dataDirectory.prefault('data'),
  ANALYSIS_MAX_AGE: maxAge.prefault('24h,30d'),
  ANALYSIS_STATUSES: statusList.default([]),
  SOURCE_TIMEZONE: timeZoneSetting,
  SNAPSHOT_KEEP: durationSetting.prefault('24h'),
  ...lakeShape,
  ...mailShape,
  ...remoteLakeShape,
  LOG_URL: s3Place.optional(),
  LAKE_KEEP: durationSetting.prefault('7d'),
  LAKE_PUBLISH_INTERVAL: durationSetting.prefault('0s'),
  LAKE_MARTS: onOff.default('off'),
  METABASE_URL: metabaseUrl.optional(),
  PAGES_URL: pagesUrl.optional(),
  METABASE_API_KEY_FILE: z.string().optional(),
  METABASE_DUCKDB_MEMORY_MB: wholeNumberSetting(64, 1_000_000).optional(),
  METABASE_SPILL_DIRECTORY: spillDirectory.optional(),
  LOG_LEVEL: z.enum(LOG_LEVELS, `must be one of ${LOG_LEVELS.join(', ')}`).default('info'),
})

type Parsed = z.output<typeof schema>

export type Settings = {
  readonly company: string
  /** Absolute. */
  readonly dataDir: string
  readonly sourceTimezone: string
  readonly snapshotKeepMs: number
  readonly lake: LakeSettings
  /** The store in which the raw log is sealed besides this disk; null if there is none. */
  readonly remoteLog: S3Settings | null
  /** The lake in an object store; null if it stays on this machine alone. */
  readonly remoteLake: RemoteLakeSettings | null
  /** Whether each snapshot has its marts as Parquet files, too. */
  readonly martFiles: boolean
  /** Phases whose analyses are fetched; empty for all, including those that the contract does not know yet. */
  readonly analysisStatuses: readonly string[]
  readonly analysisMaxAge: { readonly openMs: number | null; readonly closedMs: number | null }
  /** The Metabase that shows the company's data; null if there is none. */
  readonly metabase: MetabaseTarget | null
  /** The origin at which people find our pages, such as `https://editais.example.com`; null if it is not known. */
  readonly pagesUrl: string | null
  readonly logLevel: Parsed['LOG_LEVEL']
}

/** The Metabase that the worker points to each new snapshot. */
export type MetabaseTarget = {
  readonly url: string
  readonly apiKeyFile: string | null
  /** For DuckDB in that Metabase, all companies together; null if Metabase's own settings count. */
  readonly memoryMb: number | null
  /** On Metabase's machine, for what does not fit in memory; null for DuckDB's default, beside the catalog. */
  readonly spillDirectory: string | null
}

/** What only `editais metabase` needs, as its options give it. */
export type MetabaseOptions = {
  readonly admin?: string
  readonly adminPasswordFile?: string
  readonly trino?: string
}

/** The further settings of `editais metabase`. */
type MetabaseSettings = MetabaseTarget & {
  /** Null if there is none yet. */
  readonly apiKey: string | null
  /** The user that creates the key if there is none yet. */
  readonly adminEmail: string | null
  readonly adminPassword: string | null
  /** Null leaves a connection to Trino as it is. */
  readonly trino: TrinoTarget | null
}

export type ApiSettings = {
  readonly baseUrl: string
  readonly apiKey: string
  readonly concurrency: number
  /** Requests per second; null for no limit of our own. */
  readonly maxRps: number | null
  readonly timeoutMs: number
  readonly retries: number
  /** The first retry of a request comes after this, or up to twice as long. */
  readonly retryMs: number
}

/** Loads `.env` into the environment; variables that are already set win. A missing file is not an error. */
export function loadEnvironment(): Environment {
  try {
    const given = parseEnv(decodeText(readFileSync('.env')))
    for (const [name, value] of Object.entries(given)) process.env[name] ??= value
  } catch (error) {
    if (findSystemCode(error) !== 'ENOENT') {
      throw new FatalError(`.env cannot be read: ${getMessage(error)}.`, EXIT.usage)
    }
  }
  return process.env
}

export const NO_ADDRESS =
  "API_BASE_URL is not set. Put the API's address into .env, for example API_BASE_URL=https://api.example.com, or try `editais demo`."

/** Returns the environment of a run that the daemon started: it is complete, and `.env` must not add to it. */
export function readGivenEnvironment(): Environment {
  return process.env
}

/** Settings that every command needs. Throws FatalError (usage) that names every wrong variable. */
export function readSettings(environment: Environment): Settings {
  const values = parse(environment)
  return {
    company: values.COMPANY,
    dataDir: values.DATA_DIR,
    sourceTimezone: values.SOURCE_TIMEZONE,
    snapshotKeepMs: values.SNAPSHOT_KEEP,
    lake: values.LAKE_READERS ?? { mode: null, group: null },
    remoteLog: values.LOG_URL ? readS3Settings(values, values.LOG_URL) : null,
    remoteLake: readRemoteLake(values),
    martFiles: values.LAKE_MARTS === 'on',
    analysisStatuses: values.ANALYSIS_STATUSES,
    analysisMaxAge: values.ANALYSIS_MAX_AGE,
    metabase: metabaseTarget(values),
    pagesUrl: values.PAGES_URL ?? null,
    logLevel: values.LOG_LEVEL,
  }
}

/** Settings that apply to all companies together. Throws FatalError (usage) that names every wrong variable. */
export function readCommonSettings(environment: Environment): Omit<Settings, 'company'> {
  return readSettings({ ...environment, COMPANY: undefined })
}

function readRemoteLake(values: Parsed): RemoteLakeSettings | null {
  return readRemoteLakeSettings(values, {
    company: values.COMPANY,
    keepMs: values.LAKE_KEEP,
    intervalMs: values.LAKE_PUBLISH_INTERVAL,
  })
}

function metabaseTarget(values: Parsed): MetabaseTarget | null {
  const { METABASE_URL: url, METABASE_API_KEY_FILE: file } = values
  if (!url) return null
  return {
    url,
    apiKeyFile: file ? resolve(file) : null,
    memoryMb: values.METABASE_DUCKDB_MEMORY_MB ?? null,
    spillDirectory: values.METABASE_SPILL_DIRECTORY ?? null,
  }
}

/** Settings of `editais metabase`; its secrets are read from their files. Throws FatalError (usage). */
export function readMetabaseSettings(
  environment: Environment,
  { admin, adminPasswordFile: file, trino }: MetabaseOptions = {},
): MetabaseSettings {
  const values = parse(environment)
  const target = metabaseTarget(values)
  if (!target) {
    throw new FatalError(
      'METABASE_URL is not set. Put the address of your Metabase into .env, for example METABASE_URL=http://localhost:3000.',
      EXIT.usage,
    )
  }
  if (admin !== undefined && !z.email().safeParse(admin).success)
    throw new FatalError(`--admin ${admin}: must be an e-mail address.`, EXIT.usage)
  // A file that does not exist yet, or is empty, gets the key later.
  const { apiKeyFile } = target
  const hasKey = apiKeyFile !== null && existsSync(apiKeyFile) && statSync(apiKeyFile).size > 0
  return {
    ...target,
    apiKey: hasKey ? readSecret(environment, 'METABASE_API_KEY', 'an API key of Metabase').value : null,
    adminEmail: admin ?? null,
    adminPassword: file ? readSecretFile(file, `--admin-password-file (${shownSecretPath(file)})`) : null,
    trino: trino === undefined ? null : parseTrinoTarget(trino, readRemoteLake(values)),
  }
}

/**
 * Checks the settings of mail without the password, which may be read later.
 * @throws FatalError (usage) that names what is missing or wrong.
 */
export function checkMailSettings(environment: Environment): void {
  readAddressedMail(parse(environment))
}

/** Reads the settings of mail. @throws FatalError (usage) that names what is missing or wrong, also an unreadable password. */
export function readMailSettings(environment: Environment): MailSettings {
  const { server, from, to } = readAddressedMail(parse(environment))
  const { user, ...at } = server
  if (user === null) return { ...at, from, to, login: null }
  const { value: password, origin } = readSecret(environment, 'SMTP_PASSWORD', "the user's password")
  if (password !== null) return { ...at, from, to, login: { user, password } }
  throw new FatalError(
    `SMTP_URL names a user, but ${origin} is not set. Set it to the user's password, or name no user.`,
    EXIT.usage,
  )
}

/** Settings of the commands that call the API; the key's file is read again at each call. */
export function readApiSettings(environment: Environment): ApiSettings {
  const values = parse(environment)
  if (!values.API_BASE_URL) {
    throw new FatalError(NO_ADDRESS, EXIT.usage)
  }
  return {
    baseUrl: values.API_BASE_URL,
    apiKey: readApiKey(environment),
    concurrency: values.API_CONCURRENCY,
    maxRps: values.API_MAX_RPS || null,
    timeoutMs: values.API_TIMEOUT_MS,
    retries: values.API_RETRIES,
    retryMs: API_RETRY_MS,
  }
}

/** Names of the settings that belong to a company. */
export const COMPANY_SETTINGS: readonly string[] = Object.keys(schema.shape)

/** Names of a company's settings that the daemon uses, not its runs; `config/daemon.ts` reads them. */
export const SCHEDULE_SETTINGS = [
  'SYNC_CRON',
  'RUN_TIMEOUT',
  'RUN_AT_LEAST_EVERY',
  'HEARTBEAT_URL',
  'REPORT_CRON',
  'HOSTS',
] as const

/** Names of the settings that hold a company's secrets, or where they are. */
export const KEY_SETTINGS: readonly string[] = ['API_KEY', 'API_KEY_FILE', 'API_KEY_ENV', 'SMTP_PASSWORD']

function parse(environment: Environment): Parsed {
  return parseSettings(schema, environment)
}

/**
 * Reads the variables of a schema; empty ones count as unset.
 * @throws FatalError (usage) that names every wrong one, or those that another one has replaced.
 */
export function parseSettings<T extends z.ZodObject>(schema: T, environment: Environment): z.output<T> {
  refuseMerged(environment)
  const known = Object.keys(schema.shape).map(name => [name, environment[name]?.trim() || undefined] as const)
  for (const [name, value] of known) refuseReplaced(name, value)
  const result = schema.safeParse(Object.fromEntries(known))
  if (result.success) return result.data
  const problems = result.error.issues.map(issue => {
    const name = String(issue.path[0])
    const value = SECRET_SETTINGS.has(name)
      ? '(not shown)'
      : withoutKey(environment[name], environment.API_KEY)
    return `${name}=${value}: ${issue.message}.`
  })
  throw new FatalError(problems.join('\n'), EXIT.usage)
}

/** Throws FatalError (usage) if a setting is set that became part of another one. */
export function refuseMerged(environment: Environment): void {
  const merged = [...MERGED_SETTINGS].filter(([name]) => environment[name]?.trim())
  if (merged.length === 0) return
  const sentences = merged.map(([name, now]) => `${name} is no longer a setting: ${now}. Remove ${name}.`)
  throw new FatalError(sentences.join('\n'), EXIT.usage)
}

/**
 * Throws FatalError (usage) if the value has U+FFFD, which Node puts in place of bytes that are not UTF-8. Compose passes such
 * bytes on from its files.
 */
function refuseReplaced(name: string, value: string | null | undefined): void {
  if (!value?.includes('\uFFFD')) return
  throw new FatalError(
    `${name} has characters that are not UTF-8. Save the file that sets it as UTF-8.`,
    EXIT.usage,
  )
}

/** These may hold a password or a token even if they are invalid. */
const SECRET_SETTINGS: ReadonlySet<string> = new Set([
  ...['SMTP_URL', 'REDIS_URL', 'ADMIN_TOKEN', 'ALERT_WEBHOOK_URL', 'ALERT_SLACK_URL', 'HEARTBEAT_URL'],
])

/** Returns the value of a wrong setting, unless it contains the key or looks as if it did (invariant I7). */
function withoutKey(value = '', key?: string): string {
  const known = key?.trim()
  const secret = (known && value.includes(known)) || /bearer|@|[?#]/i.test(value)
  return secret ? '(not shown: it may hold the key)' : value
}

function readApiKey(environment: Environment): string {
  const { value: key, ...from } = readSecret(
    environment,
    'API_KEY',
    "a key from the app's settings (notice API)",
  )
  const origin = environment.API_KEY_ENV ? `${environment.API_KEY_ENV} (api_key_env)` : from.origin
  if (!key) {
    throw new FatalError(
      `${origin} is not set. Create a key in the app's settings (notice API). Put it into ${
        environment.API_KEY_ENV
          ? `the variable ${environment.API_KEY_ENV}`
          : ".env as API_KEY, or put its file's path there as API_KEY_FILE"
      }.`,
      EXIT.usage,
    )
  }
  checkKey(key, origin)
  return key
}

/**
 * Returns a secret from the file that `<name>_FILE` names, read again at each call, or else from the variable itself; null
 * if neither is set.
 * @param what names the secret.
 * @throws FatalError (usage) if the file cannot be read, or is empty: a secret was meant.
 */
export function readSecret(
  environment: Environment,
  name: string,
  what: string,
): { value: string | null; origin: string } {
  const path = environment[`${name}_FILE`]?.trim() || null
  const origin = path ? `${name}_FILE (${shownSecretPath(path)})` : name
  const value = (path ? readSecretFile(path, origin) : environment[name])?.trim() || null
  refuseReplaced(origin, value)
  if (value !== null || path === null) return { value, origin }
  throw new FatalError(`${origin} is empty. Write ${what} into it, or unset ${name}_FILE.`, EXIT.usage)
}

/** Returns the path of a secret's file, if it is one: the value may be the secret itself (invariant I7). */
function shownSecretPath(path: string): string {
  const directory = dirname(path)
  // For a secret such as /3f9c= the directory is the root, which does not make it a path.
  const isPath = existsSync(path) || (!['.', '/'].includes(directory) && existsSync(directory))
  return isPath ? path : 'not shown: it may be the secret itself instead of the path of its file'
}
