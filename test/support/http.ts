import { mkdir, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import pino from 'pino'
import { expect, onTestFinished } from 'vitest'
import { openAdminTokens } from '#jobs/http/admin_tokens.ts'
import { createMetrics, type Metrics } from '#jobs/http/metrics.ts'
import { createHttp, type HttpOptions } from '#jobs/http/server.ts'
import { type Company, type CompanyRegistry, openCompanyRegistry } from '#jobs/queues/company_registry.ts'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import { requestSync } from '#jobs/queues/request_sync.ts'
import { openRequests } from '#jobs/queues/requests.ts'
import { makeDirectories } from '#src/core/company/company.ts'
import { newReport } from '#src/core/company/run_report.ts'
import { type CompanyState, writeState } from '#src/core/company/state.ts'
import { startHttp } from '#src/lib/http/server.ts'
import { type Environment, temporaryDirectory } from './project.ts'
import { openRedis } from './redis.ts'

export const TOKEN = 'tok_7d1e0a52c9f84b36'
export const NOW = new Date('2026-11-21T12:00:00Z')
export const SYNC = '/companies/acme/sync'
export const STATUS = '/companies/acme/status'

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
  company(slug: string): Company
  /** Sets the companies, as an edit of the file would. */
  configure(slugs: readonly string[]): Promise<void>
}

type Options = Partial<
  Pick<HttpOptions, 'requestSync' | 'status' | 'report' | 'api' | 'pages' | 'standby'>
> & {
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
  const single = adminToken ? { name: 'ADMIN_TOKEN', token: adminToken, mayChange: true } : null
  const directory = await temporaryDirectory()
  const file = join(directory, 'companies.yaml')
  await writeFile(file, companiesYaml(companies))
  const logged: string[] = []
  const log = pino({ base: {} }, { write: line => void logged.push(line) })
  const queues = openQueues({ url: options.redisUrl ?? url, prefix }, log)
  const requests = openRequests(queues.redis, prefix, () => NOW)
  const registry = await openCompanyRegistry({
    COMPANIES_FILE: file,
    DATA_DIR: options.dataDir ?? join(directory, 'data'),
    ...options.settings,
  })
  await queues.redis.ping()
  const metrics = createMetrics({ registry, queues, now: () => NOW })
  const listening = await startHttp(
    createHttp({
      registry,
      queues,
      standby: { clocks: [], stores: [] },
      metrics,
      adminTokens: openAdminTokens({ single, file: null }, log),
      log,
      requestSync: (company, { full }) =>
        requestSync({ queues, requests }, company, { full, restart: false }),
      status: async company => JSON.stringify({ company }),
      report: async company => `<h1>${company}</h1>`,
      api: null,
      pages: null,
      ...options,
    }),
    { host: '127.0.0.1', port: 0 },
  )
  onTestFinished(async () => {
    await listening.close()
    queues.redis.disconnect()
    await queues.close()
  })
  const bearer = { authorization: `Bearer ${TOKEN}` }
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${listening.url}${path}`, { ...init, headers: { ...bearer, ...init.headers }, redirect: 'manual' })
  return {
    url: listening.url,
    queues,
    registry,
    metrics,
    logged,
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
    last_run: newReport('run-1', 'incremental', NOW),
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

/** Sends a request as a browser would, with headers that `fetch` does not allow. */
export function askWith(
  url: string,
  options: { method: string; headers: Record<string, string> },
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    httpRequest(url, options, response => {
      response.resume()
      response.once('end', () => resolve(response.statusCode))
    })
      .once('error', reject)
      .end()
  })
}

/** The header that a browser sends for a logged-in user. */
export function basic(user: string, password: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` }
}

/** The body of an error answer. */
export async function errorOf(response: Response): Promise<{ error: string; detail: string }> {
  expect(response.headers.get('content-type')).toMatch(/^application\/json/)
  return (await response.json()) as { error: string; detail: string }
}
