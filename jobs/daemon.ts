import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { namesOf } from '#config/companies.ts'
import { type DaemonSettings, readDaemonSettings } from '#config/daemon.ts'
import { type Environment, loadEnvironment, readSettings } from '#config/settings.ts'
import { printableLines } from '#schema/text_key.ts'
import { openLog } from '#src/operate/open_log.ts'
import { EXIT, explain } from '#src/platform/errors.ts'
import { endProcess } from '#src/platform/exit.ts'
import { type Listening, startHttp } from '#src/platform/http/server.ts'
import { saveMemory, saveTime } from '#src/platform/memory.ts'
import { runService } from '#src/platform/service.ts'
import type { Sources } from '#src/present/serve/company.ts'
import { createEntrance } from '#src/present/serve/entrance.ts'
import { createServeRoutes } from '#src/present/serve/mirror/app.ts'
import { ServedCompanies, type ServedCompaniesOptions } from '#src/present/serve/served_companies.ts'
import { subscriptionsPath } from '#src/present/serve/webhooks/subscriptions_path.ts'
import { companyPaths } from '#src/store/company.ts'
import { createAlerts } from './alerts/alerts.ts'
import { createHeartbeat } from './alerts/heartbeat.ts'
import { inspect } from './alerts/inspect.ts'
import { type CatchUp, startCatchUp } from './catch_up.ts'
import { type CompanyRegistry, openCompanyRegistry } from './company_registry.ts'
import { type AdminTokens, openAdminTokens } from './http/admin_tokens.ts'
import { createMetrics } from './http/metrics.ts'
import { createHttp } from './http/server.ts'
import { logLibraryLines } from './library_lines.ts'
import { every } from './loop.ts'
import type { Shared } from './processors.ts'
import { answerReport, statusOf } from './questions.ts'
import { openQueues } from './queue.ts'
import { isOfRedis } from './redis_problem.ts'
import { requestSync } from './request_sync.ts'
import { openRequests } from './requests.ts'
import { keepSchedules, type Surroundings } from './scheduler.ts'
import type { Slots } from './slots.ts'
import { createStandby, type Standby } from './standby.ts'
import { startWorkers, type Workers } from './workers.ts'

/** Follows the companies' file, even while Redis is away, so that status, readiness and alerts match it. */
function followFile({ registry, log }: Pick<Surroundings, 'registry' | 'log'>): () => Promise<void> {
  const logNew = logProblems(log)
  return async () => {
    await registry.refresh()
    logNew(registry)
  }
}

/** Logs each problem of the companies' file, and each removed setting, once while it lasts. */
function logProblems(
  log: Logger,
): (registry: Pick<CompanyRegistry, 'problem' | 'broken' | 'warnings'>) => void {
  let logged = new Set<string>()
  return ({ problem, broken, warnings }) => {
    const isNew = (line: string) => !logged.has(line)
    if (problem !== null && isNew(problem)) log.error(problem)
    for (const [company, why] of broken) if (isNew(why)) log.error({ company }, why)
    for (const warning of warnings) if (isNew(warning)) log.warn(warning)
    logged = new Set([problem ?? '', ...broken.values(), ...warnings])
  }
}

/** The companies' file is checked this often. */
const REFRESH_MS = 2000
/** Clocks, and the object stores of logs, are looked at this often. */
const STANDBY_MS = 10_000
/** Staleness, disks and Redis are checked this often. */
const INSPECT_MS = 30_000
/** The process exits this long after SIGTERM, whatever is still running: Docker's grace period is 60 s. */
const EXIT_WITHIN_MS = 57_000

/** Runs the worker until SIGTERM or SIGINT: takes ticks and runs from Redis, one company per slot at a time, and serves HTTP. */
async function serve(environment: Environment): Promise<void> {
  const settings = readDaemonSettings(environment)
  const { logLevel, dataDir } = readSettings({ ...environment, COMPANY: undefined })
  const log = await openLog(logLevel, { worker: `${hostname()}-${process.pid}` })
  logLibraryLines(log)
  const registry = await openCompanyRegistry(environment)
  await runService(
    log,
    'Stopping: no new runs start. Runs under way end early and keep what they have.',
    stopping => start(openShared(settings, registry, log), { dataDir, stopping }),
  )
}

/** Starts everything; returns what stops it. */
async function start(
  shared: Shared,
  { dataDir, stopping }: { dataDir: string; stopping: AbortSignal },
): Promise<() => Promise<void>> {
  const { settings, registry, queues, log } = shared
  const startedAt = new Date()
  const lakeOf = (slug: string) => (registry.companies.get(slug)?.paths ?? companyPaths(dataDir, slug)).lake
  const logOf = (slug: string) => registry.companies.get(slug)?.settings.remoteLog ?? null
  const places = { dataDir, lakeOf, logOf }
  let catchUp: CatchUp | null = null
  const { builders, maxBehindMs } = settings.serve
  const behindOthers = (slug: string) => catchUp?.behind(slug) ?? null
  const served = openServed({ ...places, builders, maxBehindMs, behindOthers, log, now })
  const adminTokens = openAdminTokens(settings.adminTokens, log)
  const standby = createStandby({ registry, queues, log, signal: stopping })
  const http = await listen(shared, { served, adminTokens, standby, stopping })
  log.info(`Listening on ${http.url}; ${describeRegistry(shared)}.`)
  if (!adminTokens.isOn) log.warn('ADMIN_TOKEN is not set: /queues and /companies are off.')

  // Workers first: they take a missed tick before the scheduler decides that it was lost.
  const workers = startWorkers(shared)
  if (served) catchUp = startCatchUp({ registry, queues, log, served: () => served.companies, now, stopping })
  startLoops(shared, { workers, adminTokens, served, standby, startedAt, stopping })
  const webhooks = followWebhooks(shared, { ...places, served, stopping })
  return async () => {
    setTimeout(() => endProcess(EXIT.failed), EXIT_WITHIN_MS)
    // Runs may take a while to end. Until then HTTP answers, and clients send their next request elsewhere.
    http.drain()
    served?.stopWaiting()
    await Promise.all([workers.stop(), webhooks.stop()])
    await http.close()
    await served?.close()
    await queues.close()
  }
}

const now = () => new Date()

type Hooks = Sources & {
  readonly dataDir: string
  readonly served: ServedCompanies | null
  readonly stopping: AbortSignal
}

/** Webhooks are loaded once there is a subscription: most workers never send one. */
function followWebhooks(
  shared: Shared,
  { dataDir, lakeOf, logOf, served, stopping }: Hooks,
): { stop(): Promise<void> } {
  const { settings, registry, queues, metrics, log } = shared
  let started: { stop(): Promise<void> } | null = null
  const start = async () => {
    if (started || !existsSync(subscriptionsPath(dataDir))) return
    const { startWebhooks } = await import('./webhooks/webhooks.ts')
    if (stopping.aborted) return
    started = startWebhooks({
      ...{ queues, dataDir, lakeOf, logOf, log, now },
      // Each subscription has a valid key, so its company is served here.
      ...(served ? { servedOf: (company: string) => served.snapshotOf(company) } : {}),
      allowPrivate: settings.serve.webhooksToPrivate,
      isOurs: company => registry.companies.has(company),
      metrics: metrics.webhooks,
    })
  }
  const looking = every(REFRESH_MS, start, { signal: stopping, onError: queues.note })
  return {
    async stop() {
      await looking
      await started?.stop()
    },
  }
}

/** Connects to Redis, and opens what runs, routes and alerts share. */
function openShared(settings: DaemonSettings, registry: CompanyRegistry, log: Logger): Shared {
  const { concurrency, redis } = settings
  const queues = openQueues(redis, log)
  const slots: Slots = new Set()
  const alerts = createAlerts({
    redis: queues.redis,
    prefix: redis.prefix,
    settings: settings.alerts,
    log,
    now,
  })
  return {
    settings,
    registry,
    queues,
    slots,
    requests: openRequests(queues.redis, redis.prefix, now),
    metrics: createMetrics({ registry, queues, slots, concurrency, alerts, now }),
    alerts,
    heartbeat: createHeartbeat({ log }),
    log,
  }
}

async function listen(
  shared: Shared,
  {
    served,
    adminTokens,
    standby,
    stopping,
  }: {
    served: ServedCompanies | null
    adminTokens: AdminTokens
    standby: Standby
    stopping: AbortSignal
  },
): Promise<Listening> {
  const { settings, registry, queues, requests, metrics, log } = shared
  const { maxRps } = settings.serve
  const entrance = served && createEntrance({ served, maxRps, metrics: metrics.service, log })
  if (served) metrics.watchServed(served)
  const routes = createHttp({
    registry,
    served,
    queues,
    standby,
    metrics,
    log,
    adminTokens,
    requestSync: (company, { full }) => requestSync({ queues, requests }, company, { full, restart: false }),
    status: slug => statusOf(slug, shared, stopping),
    report: slug => answerReport(slug, shared, stopping),
    api: served && entrance && createServeRoutes({ served, settings: settings.serve, entrance, log }),
    pages: served && entrance && { served, entrance },
  })
  const onCrowd = (isCrowd: boolean) => (isCrowd ? saveTime() : saveMemory())
  const http = await startHttp(routes, { ...settings.serve, onCrowd })
  metrics.service.watch(http.connections)
  metrics.service.watchKeys(() => served?.expiringKeys() ?? [])
  return http
}

type Watching = {
  readonly workers: Workers
  readonly adminTokens: AdminTokens
  readonly served: ServedCompanies | null
  readonly standby: Standby
  readonly startedAt: Date
  readonly stopping: AbortSignal
}

/** Starts the checks that are repeated until the worker stops. */
function startLoops(shared: Shared, watching: Watching): void {
  const { workers, adminTokens, standby, startedAt, stopping } = watching
  const { queues, registry, log } = shared
  const loop = {
    signal: stopping,
    onError: (error: unknown) => (isOfRedis(error) ? queues.note(error) : log.error(explain(error).message)),
  }
  void every(REFRESH_MS, followFile({ registry, log }), loop)
  // A request sees a change by itself: this is for the log.
  void every(REFRESH_MS, async () => adminTokens.refresh(), loop)
  const keep = keepSchedules({ queues, registry, log, startedAt })
  // Without a worker that takes ticks, each would look lost. Workers with the right volume keep the schedules.
  void every(REFRESH_MS, async () => (workers.isHeldBack ? undefined : await keep()), loop)
  void every(STANDBY_MS, () => standby.look(), loop)
  void every(INSPECT_MS, () => keepWatch(shared, watching), loop)
}

/** Opens what this worker serves; null if the API keys cannot be opened: runs may still succeed, or report the problem. */
function openServed(options: ServedCompaniesOptions): ServedCompanies | null {
  try {
    return new ServedCompanies(options)
  } catch (error) {
    options.log.error(`${explain(error).message} The API is not served until the worker is restarted.`)
    return null
  }
}

/** Raises and clears the alerts that do not need a run, and sends those that are due. */
async function keepWatch(shared: Shared, { workers, served, standby, startedAt }: Watching): Promise<void> {
  await inspect({
    ...shared,
    startedAt,
    now: new Date(),
    wrongVolumes: workers.wrongVolumes,
    served,
    standby,
    isActive: slug => [...workers.slots].some(({ company }) => company === slug),
  })
  await shared.alerts.deliver()
}

function describeRegistry({ registry, settings }: Shared): string {
  const slugs = [...registry.companies.keys()]
  if (slugs.length === 0) return 'no company is configured yet: waiting for COMPANIES_FILE'
  return `${slugs.length === 1 ? 'company' : `${slugs.length} companies:`} ${namesOf(slugs)}; ${settings.concurrency} at a time`
}

try {
  await serve(loadEnvironment())
} catch (error) {
  const { message, exitCode } = explain(error)
  process.stderr.write(`${printableLines(message)}\n`)
  endProcess(exitCode)
}
