import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { joinNames } from '#config/companies.ts'
import { type DaemonSettings, readDaemonSettings } from '#config/daemon.ts'
import { type Environment, loadEnvironment, readCommonSettings } from '#config/settings.ts'
import { createHeartbeat } from '#jobs/alerts/receivers.ts'
import { repeatEvery } from '#jobs/queues/redis.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { type Listening, startHttp } from '#src/lib/http/server.ts'
import { logLibraryLines } from '#src/lib/log.ts'
import { saveMemory, saveTime } from '#src/lib/memory.ts'
import { runService } from '#src/lib/service.ts'
import { openLog } from '#src/operate/open_log.ts'
import type { Sources } from '#src/server/company.ts'
import { createEntrance } from '#src/server/entrance.ts'
import { createServeRoutes } from '#src/server/mirror/app.ts'
import { ServedCompanies } from '#src/server/served_companies.ts'
import { subscriptionsPath } from '#src/server/webhooks/subscriptions.ts'
import { createAlerts } from './alerts/alerts.ts'
import { inspect } from './alerts/inspect.ts'
import { type CatchUp, startCatchUp } from './catch_up.ts'
import { createMetrics } from './http/metrics.ts'
import { createHttp } from './http/server.ts'
import { runInProcess } from './process.ts'
import type { Shared } from './processors.ts'
import { type CompanyRegistry, openCompanyRegistry } from './queues/company_registry.ts'
import { type Ended, openQueues, type RunOrder } from './queues/queue.ts'
import { isOfRedis } from './queues/redis_problem.ts'
import { openRequests, requestSync } from './queues/requests.ts'
import type { Slots } from './queues/slots.ts'
import { createStandby, type Standby } from './queues/standby.ts'
import { keepSchedules, type Surroundings } from './scheduler.ts'
import { startWorkers, type Workers } from './workers.ts'

/** A process that takes longer to read a snapshot counts as hung. */
const ANSWER_WITHIN_MS = 30_000

type Asked = { readonly registry: Pick<CompanyRegistry, 'companies'> }

/** Returns what `status --json` prints. */
async function readStatusText(slug: string, asked: Asked, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'status' }, asked, signal)
  if (ended.kind === 'status') return JSON.stringify(ended.status)
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The status of ${slug} cannot be read.`)
}

/** Returns the report of the latest snapshot, as HTML. */
async function answerReport(slug: string, asked: Asked, signal: AbortSignal): Promise<string> {
  const ended = await askProcess(slug, { kind: 'report' }, asked, signal)
  if (ended.kind === 'report') return ended.html
  throw new FatalError(ended.kind === 'failed' ? ended.message : `The report of ${slug} cannot be created.`)
}

/** Runs the order in its own process: reading a snapshot loads DuckDB, which keeps its memory. */
async function askProcess(
  slug: string,
  order: RunOrder,
  { registry }: Asked,
  signal: AbortSignal,
): Promise<Ended> {
  const company = registry.companies.get(slug)
  if (!company) throw new FatalError(`${slug} is not configured.`)
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)])
  return await runInProcess({ company, order, signal: bounded })
}

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
  const { logLevel, dataDir } = readCommonSettings(environment)
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
  const findLake = (slug: string) => (registry.companies.get(slug)?.paths ?? companyPaths(dataDir, slug)).lake
  const findLog = (slug: string) => registry.companies.get(slug)?.settings.remoteLog ?? null
  const places = { dataDir, findLake, findLog }
  let catchUp: CatchUp | null = null
  const { maxBehindMs } = settings.serve
  const behindOthers = (slug: string) => catchUp?.behind(slug) ?? null
  const served = new ServedCompanies({ ...places, maxBehindMs, behindOthers, log, now })
  const standby = createStandby({ registry, queues, log, signal: stopping })
  const http = await listen(shared, { served, standby, stopping })
  log.info(`Listening on ${http.url}; ${describeRegistry(shared)}.`)

  // Workers first: they take a missed tick before the scheduler decides that it was lost.
  const workers = startWorkers(shared)
  catchUp = startCatchUp({ registry, queues, log, served: () => served.companies, now, stopping })
  startLoops(shared, { workers, served, standby, startedAt, stopping })
  const webhooks = followWebhooks(shared, { ...places, served, stopping })
  return async () => {
    setTimeout(() => endProcess(EXIT.failed), EXIT_WITHIN_MS)
    // Runs may take a while to end. Until then HTTP answers, and clients send their next request elsewhere.
    http.drain()
    served.stopWaiting()
    await Promise.all([workers.stop(), webhooks.stop()])
    await http.close()
    await served.close()
    await queues.close()
  }
}

const now = () => new Date()

type Hooks = Sources & {
  readonly dataDir: string
  readonly served: ServedCompanies
  readonly stopping: AbortSignal
}

/** Webhooks are loaded once there is a subscription: most workers never send one. */
function followWebhooks(
  shared: Shared,
  { dataDir, findLake, findLog, served, stopping }: Hooks,
): { stop(): Promise<void> } {
  const { settings, registry, queues, metrics, log } = shared
  let started: { stop(): Promise<void> } | null = null
  const start = async () => {
    if (started || !existsSync(subscriptionsPath(dataDir))) return
    const { startWebhooks } = await import('./webhooks/webhooks.ts')
    if (stopping.aborted) return
    started = startWebhooks({
      ...{ queues, dataDir, findLake, findLog, log, now },
      // Each subscription has a valid key, so its company is served here.
      getServed: company => served.getSnapshot(company),
      allowPrivate: settings.serve.webhooksToPrivate,
      isOurs: company => registry.companies.has(company),
      metrics: metrics.webhooks,
    })
  }
  const looking = repeatEvery(REFRESH_MS, start, { signal: stopping, onError: queues.note })
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
  { served, standby, stopping }: Pick<Watching, 'served' | 'standby' | 'stopping'>,
): Promise<Listening> {
  const { settings, registry, queues, requests, metrics, log } = shared
  const { serve, adminToken } = settings
  const entrance = createEntrance({
    ...{ served, maxRps: serve.maxRps, adminToken, metrics: metrics.service, log },
  })
  metrics.watchServed(served)
  const routes = createHttp({
    registry,
    served,
    entrance,
    queues,
    standby,
    metrics,
    log,
    requestSync: (company, { full }) => requestSync({ queues, requests }, company, { full, restart: false }),
    status: slug => readStatusText(slug, shared, stopping),
    report: slug => answerReport(slug, shared, stopping),
    api: createServeRoutes({ served, settings: serve, entrance, log }),
  })
  const onCrowd = (isCrowd: boolean) => (isCrowd ? saveTime() : saveMemory())
  const http = await startHttp(routes, { ...serve, onCrowd })
  metrics.service.watch(http.connections)
  metrics.service.watchKeys(() => served.expiringKeys())
  return http
}

type Watching = {
  readonly workers: Workers
  readonly served: ServedCompanies
  readonly standby: Standby
  readonly startedAt: Date
  readonly stopping: AbortSignal
}

/** Starts the checks that are repeated until the worker stops. */
function startLoops(shared: Shared, watching: Watching): void {
  const { workers, standby, startedAt, stopping } = watching
  const { queues, registry, log } = shared
  const loop = {
    signal: stopping,
    onError: (error: unknown) => (isOfRedis(error) ? queues.note(error) : log.error(explain(error).message)),
  }
  void repeatEvery(REFRESH_MS, followFile({ registry, log }), loop)
  const keep = keepSchedules({ queues, registry, log, startedAt })
  // Without a worker that takes ticks, each would look lost. Workers with the right volume keep the schedules.
  void repeatEvery(REFRESH_MS, async () => (workers.isHeldBack ? undefined : await keep()), loop)
  void repeatEvery(STANDBY_MS, () => standby.look(), loop)
  void repeatEvery(INSPECT_MS, () => keepWatch(shared, watching), loop)
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
  return `${slugs.length === 1 ? 'company' : `${slugs.length} companies:`} ${joinNames(slugs)}; ${settings.concurrency} at a time`
}

try {
  await serve(loadEnvironment())
} catch (error) {
  const { message, exitCode } = explain(error)
  process.stderr.write(`${makePrintableLines(message)}\n`)
  endProcess(exitCode)
}
