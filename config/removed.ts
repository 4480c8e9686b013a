import type { Environment } from './settings.ts'

/** Names of earlier versions, and what holds now. */
const REPLACED: readonly (readonly [names: string, now: string])[] = [
  [
    'ALERT_OPSGENIE_SEVERITIES ALERT_PAGERDUTY_SEVERITIES ALERT_SLACK_SEVERITIES ALERT_WEBHOOK_SEVERITIES',
    'every receiver gets critical alerts, and those in ALERT_WARNINGS_TO get warnings, too',
  ],
  ['API_AUTH_HEADER', 'the key travels in the header Authorization, which the API always accepts'],
  ['API_RETRY_MS', 'the first retry comes after 0.5 s'],
  ['DEMO_PORT', 'the demo listens on 127.0.0.1:8090, as docker-compose.demo.yml says'],
  ['HTTP_ANSWER_TIMEOUT_MS', 'a client must read a response within 30 s, a large one within more'],
  ['HTTP_MAX_CONNECTIONS', 'a server accepts 2000 connections'],
  ['HTTP_MAX_CONNECTIONS_PER_ADDRESS', 'an address has 500 connections, a trusted proxy all'],
  ['HTTP_REQUEST_TIMEOUT_MS', 'a request must arrive within 20 s'],
  [
    'METABASE_ADMIN_EMAIL METABASE_ADMIN_PASSWORD METABASE_ADMIN_PASSWORD_FILE',
    '`npm run metabase` takes --admin and --admin-password-file, until there is an API key',
  ],
  ['METABASE_COMPANY', 'Metabase in Docker reads the lake of COMPANY'],
  ['METABASE_DATABASE_ID', '`npm run metabase` finds or creates the database, and remembers it'],
  ['METABASE_TIMEOUT_MS', 'Metabase must answer a call within 15 s'],
  ['METABASE_TRINO_URL', '`npm run metabase` takes it as --trino'],
  ['REDIS_TIMEOUT_MS', 'a connection is replaced if Redis does not answer a command within 10 s'],
  ['S3_PATH_STYLE', 'with S3_ENDPOINT the bucket is in the path, without it in the name of the host'],
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

/** Settings of earlier versions, with what holds now. One that is still set has no effect, and a warning names it. */
export const REMOVED_SETTINGS: ReadonlyMap<string, string> = new Map(
  REPLACED.flatMap(([names, now]) => names.split(' ').map(name => [name, now] as const)),
)

/** Returns a warning for each setting of earlier versions that the environment has. */
export function warnOfRemoved(environment: Environment): string[] {
  return [...REMOVED_SETTINGS.keys()]
    .filter(name => environment[name]?.trim())
    .map(name => removedWarning(name))
}

/** Returns the warning about a removed setting. @param shown its name as it is written there. */
export function removedWarning(name: string, shown = name): string {
  return `${shown} is no longer a setting: ${REMOVED_SETTINGS.get(name)}. Remove it.`
}
