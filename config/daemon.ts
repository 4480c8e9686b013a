import { CronExpressionParser } from 'cron-parser'
import { z } from 'zod'
import { EXIT, FatalError } from '#src/errors.ts'
import { type ServeSettings, serveSettings, serveShape } from './serve.ts'
import {
  type Environment,
  parseSettings,
  readSecret,
  type SCHEDULE_SETTINGS,
  timeZone,
  wholeNumber,
} from './settings.ts'

const cron = z
  .string()
  .refine(isCron, 'must be a cron expression such as */5 * * * * (minute hour day month weekday)')

const schema = z.object({
  REDIS_URL: z
    .string()
    .refine(
      text => /^rediss?:\/\/[^/]/.test(text) && URL.canParse(text),
      'must be an address such as redis://127.0.0.1:6379',
    )
    .default('redis://127.0.0.1:6379'),
  REDIS_PREFIX: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'must be a short name of letters, digits, - and _')
    .default('editais-sync'),
  WORKER_CONCURRENCY: wholeNumber(1, 64).default(2),
  JOB_LOCK_MS: wholeNumber(1000, 600_000).default(45_000),
  ...serveShape,
  ALERT_AFTER_PERIODS: wholeNumber(1, 1000).default(3),
})

const scheduleSchema = z.object({
  SYNC_CRON: cron.default('*/5 * * * *'),
  SYNC_TIMEZONE: timeZone.default('America/Sao_Paulo'),
  MAINTENANCE_CRON: cron.default('30 3 * * *'),
} satisfies Record<(typeof SCHEDULE_SETTINGS)[number], z.ZodType>)

/** Settings of the whole worker: none of them can differ from company to company. */
export const DAEMON_SETTINGS: readonly string[] = [
  ...Object.keys(schema.shape),
  ...['REDIS_PASSWORD', 'REDIS_PASSWORD_FILE', 'COMPANIES_FILE'],
  ...['ADMIN_TOKEN', 'ADMIN_TOKEN_FILE', 'ALERT_WEBHOOK_URL', 'ALERT_WEBHOOK_URL_FILE'],
]

export type RedisSettings = {
  /** Holds the password: only its host may be shown. */
  readonly url: string
  /** In front of every key, so that several installations can share a Redis. */
  readonly prefix: string
}

export type DaemonSettings = {
  readonly redis: RedisSettings
  /** Runs at the same time, each in a process of its own. */
  readonly concurrency: number
  /** For how long a worker that fell silent keeps its jobs. */
  readonly jobLockMs: number
  readonly serve: ServeSettings
  /** Without a good run for so many of its periods, a company is stale. */
  readonly alertAfterPeriods: number
  /** Null turns off everything that needs it. */
  readonly adminToken: string | null
  /** May hold a token: it is never logged or stored. */
  readonly webhookUrl: string | null
}

export type Schedule = {
  readonly syncCron: string
  readonly maintenanceCron: string
  readonly timezone: string
}

/** Where Redis is, and its password, for commands that hand something to the daemon. Throws FatalError (usage). */
export function readRedisSettings(environment: Environment): RedisSettings {
  return redisSettings(parseSettings(schema, environment), environment)
}

function redisSettings(values: z.output<typeof schema>, environment: Environment): RedisSettings {
  const { value: password, origin, path } = readSecret(environment, 'REDIS_PASSWORD')
  if (path !== null && password === null) {
    throw new FatalError(
      `${origin} is empty. Write the password of Redis into it, or unset REDIS_PASSWORD_FILE.`,
      EXIT.usage,
    )
  }
  const url = new URL(values.REDIS_URL)
  // The setter would leave a % as it is, and whoever reads the address would decode it.
  if (password !== null) url.password = encodeURIComponent(password)
  return { url: url.href, prefix: values.REDIS_PREFIX }
}

/** Throws FatalError (usage) naming every wrong variable. */
export function readDaemonSettings(environment: Environment): DaemonSettings {
  const values = parseSettings(schema, environment)
  const { value: webhookUrl } = readSecret(environment, 'ALERT_WEBHOOK_URL')
  parseSettings(z.object({ ALERT_WEBHOOK_URL: webhook.optional() }), {
    ALERT_WEBHOOK_URL: webhookUrl ?? undefined,
  })
  return {
    redis: redisSettings(values, environment),
    concurrency: values.WORKER_CONCURRENCY,
    jobLockMs: values.JOB_LOCK_MS,
    serve: serveSettings(values),
    alertAfterPeriods: values.ALERT_AFTER_PERIODS,
    adminToken: readAdminToken(environment),
    webhookUrl,
  }
}

/** Shorter ones are found by trying. */
const MIN_TOKEN_LENGTH = 16

function readAdminToken(environment: Environment): string | null {
  const { value, origin } = readSecret(environment, 'ADMIN_TOKEN')
  if (value === null || value.length >= MIN_TOKEN_LENGTH) return value
  throw new FatalError(
    `${origin} has ${value.length} characters: a token must have at least ${MIN_TOKEN_LENGTH}, or it can be guessed. Make one with \`openssl rand -hex 16\`.`,
    EXIT.usage,
  )
}

/** When a company's jobs run. Throws FatalError (usage) naming every wrong variable. */
export function readSchedule(environment: Environment): Schedule {
  const values = parseSettings(scheduleSchema, environment)
  return {
    syncCron: values.SYNC_CRON,
    maintenanceCron: values.MAINTENANCE_CRON,
    timezone: values.SYNC_TIMEZONE,
  }
}

const webhook = z
  .string()
  .refine(text => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), 'must be an http address')

/** With five fields, or six with seconds, or a name such as @daily; and there must be such a time. */
function isCron(text: string): boolean {
  if (!/^@[a-z]+$/.test(text) && ![5, 6].includes(text.split(/\s+/).length)) return false
  // `H` is another time at each look.
  if (/\bH\b/.test(text)) return false
  try {
    CronExpressionParser.parse(text).next()
    return true
  } catch {
    return false
  }
}
