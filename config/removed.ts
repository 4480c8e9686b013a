import type { Environment } from './settings.ts'

const COMPOSE =
  'a docker-compose.override.yml changes what docker-compose.yml says (docs/operating/docker.md)'
const BUILD =
  'it is an argument of the build, set with --build-arg or in a docker-compose.override.yml (docs/operating/docker.md)'
const SEVERITIES = 'every receiver gets critical alerts, and those in ALERT_WARNINGS_TO get warnings, too'

/** Settings of earlier versions, and what holds now. One that is still set has no effect, and is warned about by name. */
export const REMOVED_SETTINGS: Readonly<Record<string, string>> = {
  METABASE_ADMIN_EMAIL: '`npm run metabase` takes it as its option --admin, until there is an API key',
  METABASE_ADMIN_PASSWORD_FILE:
    '`npm run metabase` takes it as its option --admin-password-file, until there is an API key',
  METABASE_DATABASE_ID: '`npm run metabase` finds or creates the database, and remembers it',
  METABASE_TIMEOUT_MS: 'Metabase must answer a call within 15 s',
  METABASE_TRINO_URL: '`npm run metabase` takes it as its option --trino',
  REDIS_TIMEOUT_MS: 'a connection is replaced if Redis does not answer a command within 10 s',
  S3_PATH_STYLE: 'with S3_ENDPOINT the bucket is in the path, without it in the name of the host',
  SYNC_TIMEZONE: 'schedules are in SOURCE_TIMEZONE, as all local times of a company',
  ALERT_OPSGENIE_SEVERITIES: SEVERITIES,
  ALERT_PAGERDUTY_SEVERITIES: SEVERITIES,
  ALERT_SLACK_SEVERITIES: SEVERITIES,
  ALERT_WEBHOOK_SEVERITIES: SEVERITIES,
  API_AUTH_HEADER: 'the key travels in the header Authorization, which the API always accepts',
  API_RETRY_MS: 'the first retry comes after 0.5 s',
  HTTP_MAX_CONNECTIONS: 'a server accepts 2000 connections',
  HTTP_MAX_CONNECTIONS_PER_ADDRESS: 'an address has 500 connections, a trusted proxy all',
  HTTP_REQUEST_TIMEOUT_MS: 'a request must arrive within 20 s',
  HTTP_ANSWER_TIMEOUT_MS: 'a client must read a response within 30 s, a large one within more',
  ICEBERG_CATALOG_IMAGE: COMPOSE,
  ICEBERG_CATALOG_MEMORY: COMPOSE,
  METABASE_MEMORY: COMPOSE,
  METABASE_PORT: COMPOSE,
  POSTGRES_IMAGE: COMPOSE,
  REDIS_IMAGE: COMPOSE,
  REDIS_MAXMEMORY: COMPOSE,
  REDIS_MEMORY: COMPOSE,
  S3_MEMORY: COMPOSE,
  TRINO_IMAGE: COMPOSE,
  TRINO_MEMORY: COMPOSE,
  TRINO_PORT: COMPOSE,
  VERSITYGW_IMAGE: COMPOSE,
  WORKER_PIDS: COMPOSE,
  DEBIAN_IMAGE: BUILD,
  DRIVER_SHA256: BUILD,
  JRE_IMAGE: BUILD,
  METABASE_IMAGE: BUILD,
  NODE_IMAGE: BUILD,
  REVISION: BUILD,
  DEMO_PORT: 'the demo listens on 127.0.0.1:8090, as docker-compose.demo.yml says',
}

export function isRemoved(name: string): boolean {
  return Object.hasOwn(REMOVED_SETTINGS, name)
}

/** Returns a warning for each setting of earlier versions that the environment has. */
export function warnOfRemoved(environment: Environment): string[] {
  return Object.keys(REMOVED_SETTINGS)
    .filter(name => environment[name]?.trim())
    .map(name => removedWarning(name))
}

/** @param shown the name as it is written there. */
export function removedWarning(name: string, shown = name): string {
  return `${shown} is no longer a setting: ${REMOVED_SETTINGS[name]}. Remove it.`
}
