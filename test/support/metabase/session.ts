import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { createMetabase, type Metabase } from '#src/extras/metabase/client.ts'
import { type ProvisionRequest, provision } from '#src/extras/metabase/provision.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { syncHere } from '../here.ts'
import { type Environment, settingsFor, temporaryDirectory } from '../project.ts'
import { KEY } from '../synced.ts'
import { type StandIn, startMetabase } from './stand_in.ts'
import type { Entity } from './state.ts'

export const ADMIN = { adminEmail: 'dados@example.com', adminPassword: 'segredo-da-casa-1' }
export const CARDS = DASHBOARDS.flatMap(({ filters, cards }) => cards.map(card => ({ ...card, filters })))

/** A company with a snapshot. */
export type Published = {
  readonly environment: Environment
  readonly lake: string
  readonly catalogPath: string
  remove(): Promise<void>
}

/** For all tests of a file. */
export async function publishCompany(): Promise<Published> {
  const world = generateWorld({ seed: 7, company: 'acme', notices: 30, start: new Date() })
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  const dataDir = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-test-')))
  const environment = settingsFor({ url: sandbox.url, key: KEY, dataDir })
  await syncHere(environment)
  await sandbox.close()
  const { lake } = companyPaths(dataDir, 'acme')
  const catalogPath = join(await realpath(join(lake, 'latest')), 'catalog.duckdb')
  return { environment, lake, catalogPath, remove: () => rm(dataDir, { recursive: true, force: true }) }
}

export type Session = {
  readonly metabase: StandIn
  readonly keyFile: string
  /** Runs with a client of its own, as a command does. */
  run(more?: Partial<ProvisionRequest>): ReturnType<typeof provision>
}

/** A new Metabase, and the runs that set it up for a company. */
export async function newMetabase({ catalogPath }: Published): Promise<Session> {
  const metabase = await startMetabase()
  const keyFile = join(await temporaryDirectory(), 'metabase_api_key')
  return {
    metabase,
    keyFile,
    run: async more =>
      await provision({
        client: clientOf(metabase.url),
        company: 'acme',
        catalogPath,
        sourceTimezone: 'America/Sao_Paulo',
        resources: { memoryMb: null, spillDirectory: null },
        trino: null,
        syncMs: 5000,
        pollMs: 5,
        signal: AbortSignal.timeout(60_000),
        access: { apiKey: await keyIn(keyFile), apiKeyFile: keyFile, ...ADMIN },
        ...more,
      }),
  }
}

export async function keyIn(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').then(
    text => text.trim(),
    () => null,
  )
}

export function clientOf(url: string, apiKey: string | null = null, timeoutMs = 10_000): Metabase {
  const signal = new AbortController().signal
  const client = createMetabase({ url, apiKey, timeoutMs, signal, secrets: [ADMIN.adminPassword] })
  onTestFinished(() => client.close())
  return client
}

export function settingsOf(card: Entity | undefined): Record<string, unknown> {
  return card?.visualization_settings as Record<string, unknown>
}
