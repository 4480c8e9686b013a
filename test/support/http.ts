import { mkdirSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pino, { type Logger } from 'pino'
import { expect, onTestFinished } from 'vitest'
import { createMetrics, type Metrics } from '#jobs/http/metrics.ts'
import { createHttp, type HttpOptions } from '#jobs/http/server.ts'
import { type Company, type CompanyRegistry, openCompanyRegistry } from '#jobs/queues/company_registry.ts'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import { openRequests, requestSync } from '#jobs/queues/requests.ts'
import { companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { createReport } from '#src/core/company/run_report.ts'
import { type CompanyState, writeState } from '#src/core/company/state.ts'
import { startHttp } from '#src/lib/http/server.ts'
import { createEntrance } from '#src/server/entrance.ts'
import type { Scope } from '#src/server/key_file.ts'
import { KeyStore } from '#src/server/keys.ts'
import { createServeRoutes } from '#src/server/mirror/app.ts'
import { ServedCompanies } from '#src/server/served_companies.ts'
import { type Environment, temporaryDirectory } from './project.ts'
import { openRedis } from './redis.ts'

export const NOW = new Date('2026-11-21T12:00:00Z')
export const SYNC = '/companies/acme/sync'
export const STATUS = '/companies/acme/status'

/** ADMIN_TOKEN of `serveWorker`. */
export const TOKEN = 'tok_7d1e0a52c9f84b36'

/** A worker's HTTP server without the worker: the queues are real, but no jobs are processed. */
export type Worker = {
  readonly url: string
  readonly queues: Queues
  readonly registry: CompanyRegistry
  readonly metrics: Metrics
  /** What was logged, as JSON. */
  readonly logged: readonly string[]
  /** Sends a request with the token, unless the headers override it. */
  ask(path: string, init?: RequestInit): Promise<Response>
  post(path: string, body?: string, headers?: Record<string, string>): Promise<Response>
  /** The paths of its routes outside `/api/`. */
  readonly paths: readonly string[]
  readonly dataDir: string
  /** Works with its keys. */
  withKeys<T>(work: (keys: KeyStore) => T): T
  /** Creates a key. */
  keyOf(company: string, scopes: readonly Scope[], expiresAt?: Date | null): string
  company(slug: string): Company
  /** Sets the companies, as an edit of the file would. */
  configure(slugs: readonly string[]): Promise<void>
}

type Options = Partial<Pick<HttpOptions, 'requestSync' | 'status' | 'report' | 'standby'>> & {
  readonly redisUrl?: string
  readonly adminToken?: string | null
  readonly companies?: readonly string[]
  readonly dataDir?: string
  readonly settings?: Environment
}

/** Serves for companies `acme` and `beta` until the test ends. */
export async function serveWorker(options: Options = {}): Promise<Worker> {
  const { url, prefix } = await openRedis()
  const { adminToken = TOKEN, companies = ['acme', 'beta'] } = options
  const directory = await temporaryDirectory()
  const { dataDir = join(directory, 'data'), ...given } = options
  const file = join(directory, 'companies.yaml')
  await writeFile(file, companiesYaml(companies))
  const logged: string[] = []
  const log = pino({ base: {} }, { write: line => void logged.push(line) })
  const queues = openQueues({ url: options.redisUrl ?? url, prefix }, log)
  const requests = openRequests(queues.redis, prefix, () => NOW)
  const registry = await openCompanyRegistry({
    COMPANIES_FILE: file,
    DATA_DIR: dataDir,
    ...options.settings,
  })
  await queues.redis.ping()
  const metrics = createMetrics({ registry, queues, now: () => NOW })
  const { served, ...parts } = servedBy(dataDir, { adminToken, metrics, log })
  const service = createHttp({
    registry,
    queues,
    standby: { clocks: [], stores: [] },
    metrics,
    log,
    ...{ served, ...parts },
    requestSync: (company, { full }) => requestSync({ queues, requests }, company, { full, restart: false }),
    status: async company => JSON.stringify({ company }),
    report: async company => `<h1>${company}</h1>`,
    ...given,
  })
  const listening = await startHttp(service, { host: '127.0.0.1', port: 0 })
  onTestFinished(async () => {
    await listening.abort()
    await served.close()
    queues.redis.disconnect()
    await queues.close()
  })
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${listening.url}${path}`, {
      ...init,
      headers: { ...bearer(TOKEN), ...init.headers },
      redirect: 'manual',
    })
  return {
    url: listening.url,
    queues,
    registry,
    metrics,
    logged,
    paths: [...new Set(service.pages.routes.map(({ path }) => path))],
    dataDir,
    ...keysIn(dataDir),
    ask,
    post: (path, body, headers = { 'content-type': 'application/json' }) =>
      ask(path, {
        method: 'POST',
        headers: body === undefined ? {} : headers,
        ...(body === undefined ? {} : { body }),
      }),
    company: slug => registry.companies.get(slug) as Company,
    async configure(slugs) {
      await writeFile(file, companiesYaml(slugs))
      await registry.refresh()
    },
  }
}

type ServedWith = { adminToken: string | null; metrics: Metrics; log: Logger }

function servedBy(dataDir: string, { adminToken, metrics, log }: ServedWith) {
  const findLake = (slug: string) => companyPaths(dataDir, slug).lake
  const now = () => new Date()
  const served = new ServedCompanies({ dataDir, builders: 1, findLake, findLog: () => null, log, now })
  const entrance = createEntrance({ served, maxRps: null, adminToken, metrics: metrics.service, log })
  const api = createServeRoutes({ served, settings: { corsOrigins: [] }, entrance, log })
  return { served, entrance, api }
}

function keysIn(dataDir: string): Pick<Worker, 'withKeys' | 'keyOf'> {
  const withKeys: Worker['withKeys'] = work => {
    mkdirSync(dataDir, { recursive: true })
    const keys = KeyStore.open(dataDir, 5000)
    try {
      return work(keys)
    } finally {
      keys.close()
    }
  }
  const keyOf: Worker['keyOf'] = (company, scopes, expiresAt = null) =>
    withKeys(keys => keys.create(company, 'test', new Date(), expiresAt, { scopes, maxRps: null }))
  return { withKeys, keyOf }
}

function companiesYaml(slugs: readonly string[]): string {
  const companies = slugs.map(
    slug => `  ${slug}: { api_base_url: "http://127.0.0.1:9", api_key_file: /none }`,
  )
  return slugs.length > 0 ? `companies:\n${companies.join('\n')}\n` : 'companies: {}\n'
}

/** Writes the state of a last run, an hour before NOW. */
export async function leaveState({ paths }: Company, changes: Partial<CompanyState> = {}): Promise<void> {
  await makeDirectories(paths)
  await writeState(paths, {
    last_run: createReport('run-1', 'incremental', NOW),
    causes: [],
    last_good_at: '2026-11-21T11:00:00.000Z',
    quarantined: 3,
    quarantined_before: 2,
    raw_log: { segments: 7, bytes: 7000 },
    snapshot: { directory: join(paths.lake, 'snapshots/1'), bytes: 9000 },
    ...changes,
  })
}

/** Makes the company look as if it had a snapshot. */
export async function leaveSnapshot({ paths }: Company): Promise<void> {
  await mkdir(join(paths.lake, 'latest'), { recursive: true })
}

export function bearer(key: string): { authorization: string } {
  return { authorization: `Bearer ${key}` }
}

/** The header of a browser that has signed in. */
export function cookie(key: string): { cookie: string } {
  return { cookie: `editais_chave=${key}` }
}

/** The body of an error answer. */
export async function errorOf(response: Response): Promise<{ error: string; detail: string }> {
  expect(response.headers.get('content-type')).toMatch(/^application\/json/)
  return (await response.json()) as { error: string; detail: string }
}
