import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { CronExpressionParser } from 'cron-parser'
import { z } from 'zod'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import {
  ALERT_SECRETS,
  type AlertSettings,
  alertShape,
  readAlertSettings,
  webAddressSetting,
} from './alerts.ts'
import { type ServeSettings, serveSettings, serveShape } from './http.ts'
import { commaList } from './setting_kinds.ts'
import {
  checkMailSettings,
  durationSetting,
  type Environment,
  parseSettings,
  readSecret,
  type SCHEDULE_SETTINGS,
  timeZoneSetting,
  wholeNumberSetting,
} from './settings.ts'

const cron = z.string().superRefine((text, context) => {
  const message = problemOfCron(text)
  if (message !== null) context.addIssue({ code: 'custom', message })
})

/** A week: timers support at most 24 days, and a hang must be noticed sooner than that. */
const MAX_LIMIT_MS = 7 * 24 * 3_600_000
const limit = durationSetting.refine(ms => ms > 0 && ms <= MAX_LIMIT_MS, 'must be more than 0 and at most 7d')

const REDIS_PORT = 6379
const SENTINEL_PORT = 26_379

/** Reads `host` or `host:port`; null if it is neither. */
function parseAddress(text: string, defaultPort: number): Address | null {
  const [, host, port = defaultPort] = /^([\w.-]+|\[[0-9a-fA-F:]+\])(?::(\d{1,5}))?$/.exec(text) ?? []
  const isAddress = host !== undefined && Number(port) > 0 && Number(port) < 65_536
  return isAddress ? { host: host.replace(/[[\]]/g, ''), port: Number(port) } : null
}

const NO_REDIS = 'must be an address such as redis://127.0.0.1:6379, or rediss:// for TLS'
const NO_LIST =
  'must have addresses such as 10.0.0.1:6379 and 10.0.0.2, separated by commas, and user and password once, before the first'
const ENDING =
  'must end with ?cluster if it has nodes of a cluster, or with ?sentinel=NAME if it has sentinels, not with both'
const NO_MASTER = 'must name the master after ?sentinel=, as in `sentinel monitor NAME …`'
const NO_DATABASE = 'may have only a database number after the port, as in redis://127.0.0.1:6379/1'
const DATABASE_OF_CLUSTER =
  'names a database, but a cluster has only database 0. Remove it; to share the cluster, set REDIS_PREFIX'

/** Where Redis is: at an address; where sentinels say, whose addresses these are; or in the cluster of these nodes. */
type RedisAt = Pick<RedisSettings, 'url' | 'cluster'> & {
  readonly sentinels: Omit<SentinelSettings, 'password'> | null
}

/** Reads `redis://one`, `redis://one,two?cluster` or `redis://one,two/1?sentinel=mymaster`. */
const redisAt = z.string().transform((text, context): RedisAt => {
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  }
  const [, protocol, authority = '', end] = /^(rediss?:)\/\/([^/?#]+)(.*)$/s.exec(text) ?? []
  const hostsAt = authority.lastIndexOf('@') + 1
  const start = `${protocol}//${authority.slice(0, hostsAt)}`
  const [first = '', ...more] = authority.slice(hostsAt).split(',')
  if (!URL.canParse(`${start}${first}${end}`)) return refuse(NO_REDIS)
  const url = new URL(`${start}${first}${end}`)
  // ioredis would read any other text as database 0.
  if (!/^\/?(\d{1,5})?$/.test(url.pathname)) return refuse(NO_DATABASE)
  const kinds = [...url.searchParams.keys()].filter(name => /^(cluster|sentinel|name$)/i.test(name))
  const [kind] = kinds
  if (kind === undefined && more.length === 0) return { url: text, sentinels: null, cluster: null }
  if (kinds.length !== 1 || (kind !== 'cluster' && kind !== 'sentinel')) return refuse(ENDING)
  const name = url.searchParams.get('sentinel')
  if (kind === 'cluster' && !/^\/?0*$/.test(url.pathname)) return refuse(DATABASE_OF_CLUSTER)
  if (name !== null && !/^[\w.-]+$/.test(name)) return refuse(NO_MASTER)
  const port = kind === 'cluster' ? REDIS_PORT : SENTINEL_PORT
  const hosts = [first, ...more].map(one => parseAddress(one.trim(), port))
  if (!hosts.every(host => host !== null) || start.includes(',')) return refuse(NO_LIST)
  url.searchParams.delete(kind)
  url.port = String(hosts[0]?.port)
  return {
    url: url.href,
    sentinels: name === null ? null : { hosts, name },
    cluster: name === null ? hosts : null,
  }
})

/** The name as `hostname` prints it. */
const HOST_NAME = /^[\w.-]{1,253}$/

const hostNames = commaList(
  name => HOST_NAME.test(name),
  'must be names of hosts such as sync-a, separated by commas',
).transform(names => names.map(name => name.toLowerCase()))

const schema = z.object({
  REDIS_URL: redisAt.prefault('redis://127.0.0.1:6379'),
  REDIS_PREFIX: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'must be a name of 1 to 64 letters, digits, - and _')
    .default('editais-sync'),
  WORKER_HOST: z.string().regex(HOST_NAME, 'must be a name such as sync-a').default(hostname()),
  WORKER_CONCURRENCY: wholeNumberSetting(1, 64).default(2),
  WORKER_FAIR_SHARE: limit.prefault('10m'),
  JOB_LOCK_MS: wholeNumberSetting(1000, 600_000).default(45_000),
  ...serveShape,
  ...alertShape,
})

const scheduleSchema = z.object({
  SYNC_CRON: cron.default('*/5 * * * *'),
  HEARTBEAT_URL: webAddressSetting.optional(),
  RUN_TIMEOUT: limit.prefault('2h'),
  RUN_AT_LEAST_EVERY: durationSetting.prefault('1h'),
  REPORT_CRON: cron.optional(),
  HOSTS: hostNames.optional(),
  SOURCE_TIMEZONE: timeZoneSetting,
} satisfies Record<(typeof SCHEDULE_SETTINGS)[number] | 'SOURCE_TIMEZONE', z.ZodType>)

/** Settings of the whole worker: they are the same for all companies. */
export const DAEMON_SETTINGS: readonly string[] = [
  ...Object.keys(schema.shape),
  ...['COMPANIES_FILE', 'REDIS_CA_FILE'],
  ...[...ALERT_SECRETS, 'ADMIN_TOKEN', 'REDIS_PASSWORD', 'REDIS_SENTINEL_PASSWORD'].flatMap(name => [
    name,
    `${name}_FILE`,
  ]),
]

export type RedisSettings = {
  /** With the first address, and the password: only its host may be shown. */
  readonly url: string
  /**
   * Prefix of every key, so that several installations can share a Redis. In a cluster it is a hash tag, `{…}`: one
   * command or script may only use keys of one slot.
   */
  readonly prefix: string
  /** Certificates, as PEM, of the authorities trusted to sign Redis' certificate; null for those that Node trusts. */
  readonly ca: string | null
  /** The sentinels, which know the address of Redis; null if it stays in one place. */
  readonly sentinels: SentinelSettings | null
  /** Some nodes of a cluster, which name the others; null if it is not a cluster. */
  readonly cluster: readonly Address[] | null
}

export type Address = { readonly host: string; readonly port: number }

export type SentinelSettings = {
  readonly hosts: readonly Address[]
  /** The name that they have for Redis. */
  readonly name: string
  /** Their own password; null if they have none. */
  readonly password: string | null
}

export type DaemonSettings = {
  readonly redis: RedisSettings
  /** The name of this host, in lower case, by which companies can be pinned to it. */
  readonly host: string
  /** Runs at the same time, each in a process of its own. */
  readonly concurrency: number
  /** How long runs may hold all slots while others wait. */
  readonly fairShareMs: number
  /** How long a worker that stopped responding keeps its jobs. */
  readonly jobLockMs: number
  readonly serve: ServeSettings
  readonly alerts: AlertSettings
  /** Counts as a key of all companies with the scope `operate`; null if it is not set. */
  readonly adminToken: string | null
}

export type Schedule = {
  readonly syncCron: string
  readonly timezone: string
  /** When the week's report is mailed; null for never. */
  readonly reportCron: string | null
  /** Requested after each good run. May hold a token: it is never logged or stored. */
  readonly heartbeatUrl: string | null
  /** A run that takes longer is stopped, and keeps what it has. */
  readonly runTimeoutMs: number
  /** A look at the list may replace a run until the last run is this old; with 0, never. */
  readonly runAtLeastEveryMs: number
  /** The hosts that run the company, in lower case; null for any. */
  readonly hosts: readonly string[] | null
}

/** Address and password of Redis, for commands that enqueue jobs for the daemon. Throws FatalError (usage). */
export function readRedisSettings(environment: Environment): RedisSettings {
  return redisSettings(parseSettings(schema, environment), environment)
}

function redisSettings(values: z.output<typeof schema>, environment: Environment): RedisSettings {
  const { value: password } = readSecret(environment, 'REDIS_PASSWORD', 'the Redis password')
  const { sentinels, cluster, ...place } = values.REDIS_URL
  const url = new URL(place.url)
  // The setter does not encode a %, but readers of the address decode it.
  if (password !== null) url.password = encodeURIComponent(password)
  const secret = () => readSecret(environment, 'REDIS_SENTINEL_PASSWORD', "the sentinels' password").value
  return {
    url: url.href,
    prefix: cluster ? `{${values.REDIS_PREFIX}}` : values.REDIS_PREFIX,
    ca: readRedisCa(url, environment),
    sentinels: sentinels && { ...sentinels, password: secret() },
    cluster,
  }
}

function readRedisCa({ protocol }: URL, environment: Environment): string | null {
  const path = environment.REDIS_CA_FILE?.trim()
  if (!path) return null
  if (protocol !== 'rediss:') {
    throw new FatalError(
      `REDIS_CA_FILE=${path}: REDIS_URL begins with redis://, which is without TLS. Change it to rediss://, or unset REDIS_CA_FILE.`,
      EXIT.usage,
    )
  }
  try {
    const text = decodeText(readFileSync(path))
    for (const [certificate] of text.matchAll(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)) {
      new X509Certificate(certificate)
    }
    if (text.includes('BEGIN CERTIFICATE')) return text
  } catch (error) {
    const code = findSystemCode(error) ?? ''
    if (/^E[A-Z]+$/.test(code)) {
      throw new FatalError(`REDIS_CA_FILE=${path} cannot be read: ${code}.`, EXIT.usage)
    }
  }
  throw new FatalError(
    `REDIS_CA_FILE=${path} holds no PEM certificate. Put the certificate of the authority there.`,
    EXIT.usage,
  )
}

/** Throws FatalError (usage) that names every wrong variable. */
export function readDaemonSettings(environment: Environment): DaemonSettings {
  const values = parseSettings(schema, environment)
  return {
    redis: redisSettings(values, environment),
    host: values.WORKER_HOST.toLowerCase(),
    concurrency: values.WORKER_CONCURRENCY,
    fairShareMs: values.WORKER_FAIR_SHARE,
    jobLockMs: values.JOB_LOCK_MS,
    serve: serveSettings(values),
    alerts: readAlertSettings(values, environment),
    adminToken: readAdminToken(environment),
  }
}

/** Returns when a company's jobs run, and its heartbeat address. Throws FatalError (usage) that names every wrong variable. */
export function readSchedule(environment: Environment): Schedule {
  const values = parseSettings(scheduleSchema, environment)
  if (values.REPORT_CRON) checkMailSettings(environment)
  return {
    syncCron: values.SYNC_CRON,
    reportCron: values.REPORT_CRON ?? null,
    timezone: values.SOURCE_TIMEZONE,
    heartbeatUrl: values.HEARTBEAT_URL?.replaceAll('{company}', environment.COMPANY || 'default') ?? null,
    runTimeoutMs: values.RUN_TIMEOUT,
    runAtLeastEveryMs: values.RUN_AT_LEAST_EVERY,
    hosts: values.HOSTS ?? null,
  }
}

const NO_CRON = 'must be a cron expression such as */5 * * * * (minute hour day month weekday)'
const NEVER = 'never fires: there is no such date. Use a day that exists in its months'

/**
 * Returns what is wrong with a cron expression, or null: it has five fields, or six with seconds, or is a name such as
 * @daily; and it must fire some day.
 */
function problemOfCron(text: string): string | null {
  if (!/^@[a-z]+$/.test(text) && ![5, 6].includes(text.split(/\s+/).length)) return NO_CRON
  // `H` gives a different time at each parse.
  if (/\bH\b/.test(text)) return NO_CRON
  try {
    CronExpressionParser.parse(text).next()
    return null
  } catch (error) {
    // Impossible days are found while parsing, or only when searching for the next date.
    return /day of month definition|loop limit/.test(getMessage(error)) ? NEVER : NO_CRON
  }
}

/** Shorter ones can be found by trial. */
const MIN_LENGTH = 16

/**
 * Reads ADMIN_TOKEN or its file, which counts as a key of all companies with the scope `operate`; null if neither is set.
 * @throws FatalError (usage) if it is too short, or ADMIN_TOKENS_FILE of earlier versions is set; no message shows any of a token.
 */
export function readAdminToken(environment: Environment): string | null {
  if (environment.ADMIN_TOKENS_FILE?.trim()) {
    throw new FatalError(
      'ADMIN_TOKENS_FILE is no longer read: operators have keys. For each of its lines, run `editais keys create --description NAME --scopes operate` (`watch` for `read`) or, if DATA_DIR does not last, set ADMIN_TOKEN_FILE; then unset ADMIN_TOKENS_FILE.',
      EXIT.usage,
    )
  }
  const { value, origin } = readSecret(environment, 'ADMIN_TOKEN', 'the token')
  if (value === null || value.length >= MIN_LENGTH) return value
  throw new FatalError(
    `${origin} has ${value.length} characters. It must have at least ${MIN_LENGTH}, or it can be guessed. Create one with \`openssl rand -hex 16\`.`,
    EXIT.usage,
  )
}
