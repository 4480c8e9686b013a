import type { Environment } from './settings.ts'

const SEVERITIES = 'every receiver gets critical alerts, and those in ALERT_WARNINGS_TO get warnings, too'

/** Settings of earlier versions, and what holds now. One that is still set has no effect, and is warned about by name. */
export const REMOVED_SETTINGS: Readonly<Record<string, string>> = {
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
