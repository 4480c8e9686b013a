import { once, setMaxListeners } from 'node:events'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { namesOf } from '#config/companies.ts'
import { readDaemonSettings } from '#config/daemon.ts'
import { type Environment, loadEnvironment, readSettings } from '#config/settings.ts'
import { EXIT, explain, FatalError } from '#src/platform/errors.ts'
import { startHttp } from '#src/platform/http/server.ts'
import { flushLog, openLog } from '#src/platform/log.ts'
import { saveMemory, saveTime } from '#src/platform/memory.ts'
import { stopSignal } from '#src/platform/stop.ts'
import { createServeRoutes } from '#src/present/serve/app.ts'
import { ServedCompanies, type ServedCompaniesOptions } from '#src/present/serve/served_companies.ts'
import { companyPaths } from '#src/store/company.ts'
import { createAlerts } from './alerts/alerts.ts'
import { createHeartbeat } from './alerts/heartbeat.ts'
import { inspect } from './alerts/inspect.ts'
import type { Ended, Order } from './child.ts'
import { type CompanyRegistry, openCompanyRegistry } from './company_registry.ts'
import { createMetrics } from './http/metrics.ts'
import { createHttp } from './http/server.ts'
import { logLibraryLines } from './library_lines.ts'
import { every } from './loop.ts'
import { inProcess } from './process.ts'
import type { Shared } from './processors.ts'
import { openQueues, requestRun } from './queue.ts'
import { isOfRedis } from './redis_problem.ts'
import { openRequests } from './requests.ts'
import { keepSchedules, type Surroundings } from './scheduler.ts'
import type { Slots } from './slots.ts'
import { startWorkers, type Workers } from './workers.ts'

/** The companies' file is checked this often. */
const REFRESH_MS = 2000
/** Staleness, disks and Redis are checked this often. */
const INSPECT_MS = 30_000
/** A process that takes longer to read a snapshot counts as hung. */
const ANSWER_WITHIN_MS = 30_000
/** The process exits this long after SIGTERM, whatever is still running: Docker's grace period is 60 s. */
const EXIT_WITHIN_MS = 57_000

/**
 * The scheduled worker: takes ticks and runs from Redis, one company at a time in each of its slots, and serves HTTP,
 * until SIGTERM or SIGINT.
 */
async function serve(environment: Environment): Promise<void> {
  const settings = readDaemonSettings(environment)
  const { logLevel, dataDir } = readSettings({ ...environment, COMPANY: undefined })
  const log = await openLog(logLevel, { worker: `${hostname()}-${process.pid}` })
  logLibraryLines(log)
  const registry = await openCompanyRegistry(environment)
  const stopping = stopSignal(() =>
    log.info('Stopping: no new runs start. Runs under way end early and keep what they have.'),
  )
  setMaxListeners(0, stopping)
  const { prefix } = settings.redis
  const now = () => new Date()
  const startedAt = now()

  const queues = openQueues(settings.redis, log)
  const requests = openRequests(queues.redis, prefix, now)
  const slots: Slots = new Set()
  const alerts = createAlerts({ redis: queues.redis, prefix, webhookUrl: settings.webhookUrl, log, now })
  const { concurrency } = settings
  const metrics = createMetrics({ registry, queues, slots, concurrency, alerts, now })
  const shared: Shared = {
    settings,
    registry,
    queues,
    slots,
    requests,
    metrics,
    alerts,
    heartbeat: createHeartbeat({ log }),
    log,
  }

  const lakeOf = (slug: string) => (registry.companies.get(slug)?.paths ?? companyPaths(dataDir, slug)).lake
  const served = openServed({ dataDir, builders: settings.serve.builders, lakeOf, log, now })
  const http = await startHttp(
    createHttp({
      registry,
      queues,
      metrics,
      log,
      adminToken: settings.adminToken,
      async requestSync(company, { full }) {
        if (full) await requests.ask(company, { full, restart: false })
        const { id = '' } = await requestRun(queues, 'sync', company)
        return { job: id }
      },
      status: slug => statusOf(slug, shared, stopping),
      report: slug => reportOf(slug, shared, stopping),
      api: served && createServeRoutes({ served, settings: settings.serve, metrics: metrics.service, log }),
    }),
    { ...settings.serve, onCrowd: isCrowd => (isCrowd ? saveTime() : saveMemory()) },
  )
  metrics.service.watch(http.connections)
  log.info(`Listening on ${http.url}; ${describeRegistry(shared)}.`)
  if (!settings.adminToken) log.warn('ADMIN_TOKEN is not set: /queues and /companies are off.')

  // Workers first: they take a missed tick before the scheduler decides that it was lost.
  const workers = startWorkers(shared)
  const loop = {
    signal: stopping,
    onError: (error: unknown) => (isOfRedis(error) ? queues.note(error) : log.error(explain(error).message)),
  }
  void every(REFRESH_MS, followFile({ registry, log }), loop)
  void every(REFRESH_MS, keepSchedules({ queues, registry, log, startedAt }), loop)
  void every(INSPECT_MS, () => keepWatch(shared, { workers, startedAt }), loop)

  if (!stopping.aborted) await once(stopping, 'abort')
  setTimeout(() => process.exit(EXIT.failed), EXIT_WITHIN_MS)
  // Runs may take a while to end. Until then HTTP answers, and clients send their next request elsewhere.
  http.drain()
  await workers.stop()
  await http.close()
  await served?.close()
  await queues.close()
  log.info('Stopped.')
}

/** Null if the API keys cannot be opened: runs may still succeed, or report the problem themselves. */
function openServed(options: ServedCompaniesOptions): ServedCompanies | null {
  try {
    return new ServedCompanies(options)
  } catch (error) {
    options.log.error(`${explain(error).message} The API is not served until the worker is restarted.`)
    return null
  }
}

/** Follows the companies' file, even while Redis is away, so that status, readiness and alerts match it. */
function followFile({ registry, log }: Pick<Surroundings, 'registry' | 'log'>): () => Promise<void> {
  const logNew = logProblems(log)
  return async () => {
    await registry.refresh()
    logNew(registry)
  }
}

/** Logs each problem of the companies' file once while it lasts. */
function logProblems(log: Logger): (registry: Pick<CompanyRegistry, 'problem' | 'broken'>) => void {
  let logged = new Set<string>()
  return ({ problem, broken }) => {
    const now = new Set<string>()
    if (problem !== null) {
      now.add(problem)
      if (!logged.has(problem)) log.error(problem)
    }
    for (const [company, why] of broken) {
      now.add(why)
      if (!logged.has(why)) log.error({ company }, why)
    }
    logged = now
  }
}

/** Raises and clears the alerts that do not need a run, and sends those that are due. */
async function keepWatch(
  shared: Shared,
  { workers, startedAt }: { workers: Workers; startedAt: Date },
): Promise<void> {
  await inspect({
    ...shared,
    startedAt,
    now: new Date(),
    isActive: slug => [...workers.slots].some(({ company }) => company === slug),
  })
  await shared.alerts.deliver()
}

async function statusOf(slug: string, shared: Shared, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'status' }, shared, signal)
  if (ended.kind === 'status') return JSON.stringify(ended.status)
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The status of ${slug} cannot be read.`)
}

async function reportOf(slug: string, shared: Shared, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'report' }, shared, signal)
  if (ended.kind === 'report') return ended.html
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The report of ${slug} cannot be created.`)
}

/** Runs the order in its own process: reading a snapshot loads DuckDB, which keeps its memory. */
async function askProcess(
  slug: string,
  order: Order,
  { registry }: Shared,
  signal: AbortSignal,
): Promise<Ended> {
  const company = registry.companies.get(slug)
  if (!company) throw new FatalError(`${slug} is not configured.`)
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)])
  return await inProcess({ company, order, signal: bounded })
}

function describeRegistry({ registry, settings }: Shared): string {
  const slugs = [...registry.companies.keys()]
  if (slugs.length === 0) return 'no company is configured yet: waiting for COMPANIES_FILE'
  return `${slugs.length === 1 ? 'company' : `${slugs.length} companies:`} ${namesOf(slugs)}; ${settings.concurrency} at a time`
}

try {
  await serve(loadEnvironment())
  await flushLog()
  process.exit(EXIT.ok)
} catch (error) {
  const { message, exitCode } = explain(error)
  process.stderr.write(`${message}\n`)
  process.exit(exitCode)
}
