import type { Environment } from './settings.ts'

/** Settings of earlier versions, and what holds now. One that is still set has no effect, and is warned about by name. */
export const REMOVED_SETTINGS: Readonly<Record<string, string>> = {
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
