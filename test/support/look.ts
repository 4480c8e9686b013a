import { readApiSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { type Look, look } from '#src/operate/look.ts'
import { contextHere } from './here.ts'
import type { Environment } from './project.ts'

const HOUR_MS = 3_600_000

/** A look as the daemon makes it, in this process. */
export async function lookHere(
  environment: Environment,
  { now = () => new Date(), maxAgeMs = HOUR_MS } = {},
): Promise<Look> {
  const { paths, settings, signal } = contextHere(environment)
  const openApi = async () =>
    createApiClient({ ...readApiSettings(environment), signal, nowMs: Date.now, retries: 0 })
  return await look({ paths, settings, now, maxAgeMs, openApi, signal })
}
