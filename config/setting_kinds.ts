import { z } from 'zod'

/**
 * Reads an http or https address as its origin and path, without slashes at its end. One with a user, a key, a query or a
 * fragment is refused, so what is read can be shown.
 * @param message what it must be.
 */
export function serverAddress(message: string) {
  return z.string().transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : null
    if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash)
      return `${url.origin}${url.pathname.replace(/(?<!\/)\/+$/, '')}`
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  })
}

/** Reads parts that are separated by commas. @param message what they must be. */
export function commaList(isValid: (part: string) => boolean, message: string) {
  return z
    .string()
    .transform(text => text.split(',').map(part => part.trim()))
    .refine(parts => parts.every(isValid), message)
}

/** Names of earlier versions, and what holds now. */
const REPLACED: readonly (readonly [names: string, now: string])[] = [
  [
    'ALERT_OPSGENIE_SEVERITIES ALERT_PAGERDUTY_SEVERITIES ALERT_SLACK_SEVERITIES ALERT_WEBHOOK_SEVERITIES',
    'every receiver gets critical alerts, and those in ALERT_WARNINGS_TO get warnings, too',
  ],
  ['ALERT_AFTER_PERIODS', 'a company is stale after three periods without a good run'],
  ['API_AUTH_HEADER', 'the key travels in the header Authorization, which the API always accepts'],
  ['API_RETRY_MS', 'the first retry comes after 0.5 s'],
  ['DEMO_PORT', 'the demo listens on 127.0.0.1:8090, as docker-compose.demo.yml says'],
  ['HTTP_ANSWER_TIMEOUT_MS', 'a client must read a response within 30 s, a large one within more'],
  ['HTTP_MAX_CONNECTIONS', 'a server accepts 2000 connections'],
  ['HTTP_MAX_CONNECTIONS_PER_ADDRESS', 'an address has 500 connections, a trusted proxy all'],
  ['HTTP_REQUEST_TIMEOUT_MS', 'a request must arrive within 20 s'],
  ['MAINTENANCE_CRON', 'disks are cleaned up at 3:30 in SOURCE_TIMEZONE'],
  [
    'METABASE_ADMIN_EMAIL METABASE_ADMIN_PASSWORD METABASE_ADMIN_PASSWORD_FILE',
    '`editais metabase` takes --admin and --admin-password-file, until there is an API key',
  ],
  ['METABASE_COMPANY', 'Metabase in Docker reads the lake of COMPANY'],
  ['METABASE_DATABASE_ID', '`editais metabase` finds or creates the database, and remembers it'],
  ['METABASE_TIMEOUT_MS', 'Metabase must answer a call within 15 s'],
  ['METABASE_TRINO_URL', '`editais metabase` takes it as --trino'],
  ['QUESTIONS_DIR', '`editais ask` finds your questions in config/questions'],
  ['REDIS_TIMEOUT_MS', 'a connection is replaced if Redis does not answer a command within 10 s'],
  ['S3_PATH_STYLE', 'with S3_ENDPOINT the bucket is in the path, without it in the name of the host'],
  ['SERVE_BUILDERS', 'two processes prepare snapshots'],
  ['SYNC_TIMEZONE', 'schedules are in SOURCE_TIMEZONE, as all local times of a company'],
  ['WORKER_PORTS', 'the port of a worker is HTTP_PORT, in Docker, too'],
  [
    'ICEBERG_CATALOG_IMAGE ICEBERG_CATALOG_MEMORY METABASE_MEMORY METABASE_PORT POSTGRES_IMAGE REDIS_IMAGE REDIS_MAXMEMORY REDIS_MEMORY S3_MEMORY TRINO_IMAGE TRINO_MEMORY TRINO_PORT VERSITYGW_IMAGE WORKER_PIDS',
    'docker-compose.override.yml changes what docker-compose.yml says (docs/operating/docker.md)',
  ],
  [
    'DEBIAN_IMAGE DRIVER_SHA256 JRE_IMAGE METABASE_IMAGE NODE_IMAGE REVISION',
    'it is an argument of the build, for --build-arg or docker-compose.override.yml (docs/operating/docker.md)',
  ],
]

/** What another setting says now. */
const MERGED: typeof REPLACED = [
  ['ALERT_OPSGENIE_URL', 'it is part of ALERT_OPSGENIE_KEY, as in https://KEY@api.eu.opsgenie.com'],
  ['ALERT_PAGERDUTY_URL', 'it is part of ALERT_PAGERDUTY_KEY, as in https://KEY@events.eu.pagerduty.com'],
  [
    'ICEBERG_OAUTH_CLIENT_ID ICEBERG_OAUTH_CLIENT_SECRET_FILE',
    'ICEBERG_CREDENTIAL_FILE names a file with one line, CLIENT:SECRET',
  ],
  ['ICEBERG_TOKEN_FILE', 'ICEBERG_CREDENTIAL_FILE names a file with the token'],
  ['LAKE_GROUP', 'it is part of LAKE_READERS, as in group:bi'],
  ['LAKE_MODE', 'LAKE_READERS is all for 0755, group for 0750, and none for 0700'],
  [
    'REDIS_CLUSTER',
    'REDIS_URL has the nodes in place of its host, and ?cluster at its end (in Docker: in docker-compose.override.yml)',
  ],
  [
    'REDIS_SENTINELS REDIS_SENTINEL_NAME',
    'REDIS_URL has the sentinels in place of its host, and ?sentinel=NAME at its end (in Docker: in docker-compose.override.yml)',
  ],
  [
    'S3_ACCESS_KEY_ID_FILE S3_SECRET_ACCESS_KEY_FILE',
    'S3_CREDENTIALS_FILE names one file with both parts of the key, as in ~/.aws/credentials',
  ],
  ['SMTP_TLS', 'TLS is required unless SMTP_URL ends with ?tls=off'],
]

const byName = (all: typeof REPLACED): ReadonlyMap<string, string> =>
  new Map(all.flatMap(([names, now]) => names.split(' ').map(name => [name, now] as const)))

/** Settings of earlier versions, with what holds now. One that is still set has no effect, and a warning names it. */
export const REMOVED_SETTINGS = byName(REPLACED)

/**
 * Settings of earlier versions that became part of another one. Ignoring one could open what was closed, or reach another server,
 * so each is refused.
 */
export const MERGED_SETTINGS = byName(MERGED)
