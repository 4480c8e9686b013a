import { readFile, statfs } from 'node:fs/promises'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Settings } from '#config/settings.ts'
import type { Alerts } from '#jobs/alerts/alerts.ts'
import type { Company, CompanyRegistry } from '#jobs/queues/company_registry.ts'
import { type Known, readKnownStates } from '#jobs/queues/known_state.ts'
import type { AnswerSeen, Queues } from '#jobs/queues/queue.ts'
import { askRedis } from '#jobs/queues/redis.ts'
import type { Slots } from '#jobs/queues/slots.ts'
import { createWebhookMetrics, type WebhookMetrics } from '#jobs/webhooks/deliver.ts'
import { OUTCOMES, type RunCounter } from '#schema/sync_runs.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { readVersion } from '#src/lib/version.ts'
import { listReaders } from '#src/operate/extras.ts'
import { createServiceMetrics, type ServiceMetrics } from '#src/server/contract/metrics.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'

/** A scraper waits some ten seconds at most; a Redis that is away must not cost the other metrics. */
const REDIS_WITHIN_MS = 1000
/** From a run that finds nothing to the first one of a large company. */
const RUN_SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600]
/** Up to the longest wait that the default API_TIMEOUT_MS allows. */
const REQUEST_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** Sampling every 10 ms, the library's default, costs an idle worker 0.5 % of a core. */
const LOOP_SAMPLE_MS = 50

const MODES: readonly RunReport['mode'][] = ['incremental', 'full']
const STATUSES: readonly RunReport['status'][] = ['ok', 'partial', 'failed', 'interrupted']
/** `listed` and its outcomes (I1); then the other counts of a run. */
const COUNTED = [
  'listed',
  ...OUTCOMES,
  'added',
  'changed',
  'tombstoned',
  'revived',
  'silent_changes',
] as const satisfies readonly RunCounter[]

const OWN = 'Of this worker, since it started: sum over the workers.'
const SHARED = 'Read from the data directory: every worker shows the same, so take the max over them.'

export type Metrics = {
  /** Metrics of the API that this worker serves. */
  readonly service: ServiceMetrics
  /** Metrics of webhooks. */
  readonly webhooks: WebhookMetrics
  /** Requests to the API; the status is null if there was no answer. */
  observeAnswers(company: string, answers: readonly AnswerSeen[]): void
  /** Counts a run that ended, and how long it took; by default, until its report was written. */
  observeRun(company: string, report: RunReport, seconds?: number | null): void
  /** Counts a look, and whether it found nothing new or left the list to a run. */
  observeLook(company: string, result: LookResult): void
  /** Counts a run that left no report: it could not begin, or died. */
  observeFailure(company: string, mode: RunReport['mode']): void
  /** Shows how old what this worker serves is. */
  watchServed(served: Served): void
  /** Renders all metrics in Prometheus' text format. */
  render(): Promise<{ readonly contentType: string; readonly body: string }>
}

type Served = Pick<ServedCompanies, 'companies' | 'behind'>

const LOOK_RESULTS = ['nothing_new', 'run'] as const
type LookResult = (typeof LOOK_RESULTS)[number]

export type MetricsOptions = {
  readonly registry: Watched['registry']
  /** The runs under way, and how many may be. */
  readonly slots?: Slots
  readonly concurrency?: number
  readonly alerts?: Pick<Alerts, 'active'>
  readonly queues: Pick<Queues, 'ticks' | 'runs' | 'redis' | 'prefix' | 'problem'>
  readonly now: () => Date
}

/** Counts what runs report, and reads the rest on each scrape. */
export function createMetrics({ registry, queues, now, ...watched }: MetricsOptions): Metrics {
  const exposition = new Registry()
  collectDefaultMetrics({ register: exposition, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS })
  const counted = createCounters(exposition)
  const gauges = createGauges(exposition)
  const showWorker = createWorkerGauges(exposition, {
    ...watched,
    registry,
    redis: queues.redis,
    redisProblem: queues.problem,
  })
  const webhooks = createWebhookMetrics(exposition, now)
  let served: Served | null = null
  return {
    service: createServiceMetrics(exposition),
    webhooks,
    observeAnswers(company, answers) {
      for (const { status, seconds } of answers) {
        counted.requests.inc({ company, code: status ?? 'none' })
        counted.requestSeconds.observe({ company }, seconds)
      }
    },
    observeRun(company, report, seconds = measureSeconds(report)) {
      const { mode, status } = report
      counted.runs.inc({ company, mode, status })
      for (const outcome of COUNTED) counted.notices.inc({ company, outcome }, report[outcome])
      if (seconds !== null) counted.runSeconds.observe({ company, mode }, Math.max(0, seconds))
    },
    observeLook(company, result) {
      counted.looks.inc({ company, result })
    },
    observeFailure(company, mode) {
      counted.runs.inc({ company, mode, status: 'failed' })
    },
    watchServed(companies) {
      served = companies
    },
    async render() {
      const companies = [...registry.companies.values()]
      showServed(gauges.servedBehind, served, now())
      await Promise.all([
        showCompanies(gauges, companies, { queues, now: now() }),
        showQueues(gauges, queues),
        showWorker(),
      ])
      webhooks.show()
      beginAtZero(counted, companies)
      for (const metric of Object.values(counted)) await forgetOthers(metric, registry)
      return { contentType: exposition.contentType, body: await exposition.metrics() }
    },
  }
}

function measureSeconds({ started_at, finished_at }: RunReport): number | null {
  return finished_at === null ? null : (Date.parse(finished_at) - Date.parse(started_at)) / 1000
}

type Counters = ReturnType<typeof createCounters>
type Gauges = ReturnType<typeof createGauges>

function createCounters(registry: Registry) {
  const registers = [registry]
  return {
    runs: new Counter({
      name: 'editais_runs_total',
      help: `Runs by how they ended; runs that could not begin or died count as failed. ${OWN}`,
      labelNames: ['company', 'mode', 'status'],
      registers,
    }),
    runSeconds: new Histogram({
      name: 'editais_run_duration_seconds',
      help: `Duration of runs, including publishing. ${OWN}`,
      labelNames: ['company', 'mode'],
      buckets: RUN_SECONDS,
      registers,
    }),
    looks: new Counter({
      name: 'editais_looks_total',
      help: `Looks at the list by result: nothing_new counts as a good run, but not in editais_runs_total; run if a run had to start. ${OWN}`,
      labelNames: ['company', 'result'],
      registers,
    }),
    notices: new Counter({
      name: 'editais_notices_total',
      help: `Notices by outcome in runs: listed = unchanged + loaded + deferred + gone + quarantined + failed + not_attempted; the other outcomes are counted in addition. ${OWN}`,
      labelNames: ['company', 'outcome'],
      registers,
    }),
    requests: new Counter({
      name: 'editais_api_requests_total',
      help: `Requests to the API by the status code of the answer; none if there was no answer. ${OWN}`,
      labelNames: ['company', 'code'],
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'editais_api_request_duration_seconds',
      help: `Duration of requests to the API, answered or not. ${OWN}`,
      labelNames: ['company'],
      buckets: REQUEST_SECONDS,
      registers,
    }),
  }
}

function createGauges(registry: Registry) {
  const ofCompany = (name: string, help: string) =>
    new Gauge({ name, help: `${help} ${SHARED}`, labelNames: ['company'], registers: [registry] })
  return {
    freshness: ofCompany(
      'editais_freshness_seconds',
      'Time since the end of the last run that went through everything listed; absent before the first.',
    ),
    lastSuccess: ofCompany(
      'editais_last_success_timestamp_seconds',
      'End of the last run that went through everything listed; absent before the first.',
    ),
    withoutGood: ofCompany(
      'editais_without_good_run',
      '1 for a company without any run that went through everything listed, 0 for the others.',
    ),
    lastStatus: new Gauge({
      name: 'editais_last_run_status',
      help: `1 for the status of the last run, 0 for the others; failed also if it could not begin or died. Absent before the first. ${SHARED}`,
      labelNames: ['company', 'status'],
      registers: [registry],
    }),
    quarantined: ofCompany('editais_quarantined_records', 'Unresolved records in quarantine.'),
    rawBytes: ofCompany('editais_raw_log_bytes', 'Size of the raw log.'),
    rawSegments: ofCompany('editais_raw_log_segments', 'Segments of the raw log.'),
    snapshotBytes: ofCompany('editais_snapshot_bytes', 'Size of the latest snapshot.'),
    ofReaders: new Map(
      listReaders().flatMap(({ gauges }) => gauges.map(({ name, help }) => [name, ofCompany(name, help)])),
    ),
    servedBehind: new Gauge({
      name: 'editais_served_behind_seconds',
      help: `For how long what a worker serves of a company has not been the newest known state; 0 if it is. Of each worker.`,
      labelNames: ['company'],
      registers: [registry],
    }),
    jobs: new Gauge({
      name: 'editais_queue_jobs',
      help: 'Jobs in the queues by state; absent while Redis is away. Read from Redis: every worker shows the same, so take the max over them.',
      labelNames: ['queue', 'state'],
      registers: [registry],
    }),
  }
}

/** Returns the gauges of what reads a company's lake, as far as it is configured and has been there. */
async function readReaders(
  settings: Settings,
  paths: CompanyPaths,
): Promise<{ readonly name: string; readonly value: number }[]> {
  const read = listReaders().map(async reader => {
    const state = reader.isConfigured(settings) ? await reader.read(paths) : null
    return state === null ? [] : reader.gauges.map(({ name, value }) => ({ name, value: value(state) }))
  })
  return (await Promise.all(read))
    .flat()
    .flatMap(({ name, value }) => (value === null ? [] : [{ name, value }]))
}

async function showCompanies(
  gauges: Gauges,
  companies: readonly Company[],
  { queues, now }: { readonly queues: MetricsOptions['queues']; readonly now: Date },
): Promise<void> {
  const known = await readKnownStates(queues, companies)
  const states = await Promise.all(
    companies.map(async ({ slug, paths, settings }, index) => {
      return {
        company: slug,
        ...(known[index] as Known),
        read: await readReaders(settings, paths),
      }
    }),
  )
  const { jobs: _, servedBehind: __, ofReaders, ...ofCompanies } = gauges
  // No await from here on: one of two concurrent scrapes must not see gauges that the other has just reset.
  for (const gauge of [...Object.values(ofCompanies), ...ofReaders.values()]) gauge.reset()
  for (const { company, state, failure, read } of states) {
    gauges.withoutGood.set({ company }, state?.last_good_at ? 0 : 1)
    const last = failure ? 'failed' : state?.last_run.status
    for (const status of last ? STATUSES : [])
      gauges.lastStatus.set({ company, status }, status === last ? 1 : 0)
    for (const { name, value } of read) ofReaders.get(name)?.set({ company }, value)
    if (!state) continue
    gauges.quarantined.set({ company }, state.quarantined)
    gauges.rawBytes.set({ company }, state.raw_log.bytes)
    gauges.rawSegments.set({ company }, state.raw_log.segments)
    gauges.snapshotBytes.set({ company }, state.snapshot.bytes)
    if (state.last_good_at === null) continue
    const lastGood = Date.parse(state.last_good_at)
    gauges.lastSuccess.set({ company }, lastGood / 1000)
    gauges.freshness.set({ company }, Math.max(0, now.getTime() - lastGood) / 1000)
  }
}

function showServed(gauge: Gauge, served: Served | null, now: Date): void {
  gauge.reset()
  for (const company of served?.companies ?? []) {
    const since = served?.behind(company)?.since ?? now
    gauge.set({ company }, Math.max(0, now.getTime() - since.getTime()) / 1000)
  }
}

async function showQueues({ jobs }: Gauges, { ticks, runs, redis }: MetricsOptions['queues']): Promise<void> {
  const counts = await askRedis(redis, REDIS_WITHIN_MS, () =>
    Promise.all(
      [ticks, runs].map(async queue => ({ queue: queue.name, byState: await queue.getJobCounts() })),
    ),
  ).catch(() => [])
  jobs.reset()
  for (const { queue, byState } of counts) {
    for (const [state, count] of Object.entries(byState)) jobs.set({ queue, state }, count)
  }
}

/** Creates each series at 0: one that appears only with its first event shows no increase, so alerts would miss that event. */
function beginAtZero({ runs, looks, notices }: Counters, companies: readonly Company[]): void {
  for (const { slug: company } of companies) {
    for (const mode of MODES) for (const status of STATUSES) runs.inc({ company, mode, status }, 0)
    for (const result of LOOK_RESULTS) looks.inc({ company, result }, 0)
    for (const outcome of COUNTED) notices.inc({ company, outcome }, 0)
  }
}

/** Removes the series of companies that are no longer configured. */
async function forgetOthers(
  metric: Counter | Histogram,
  { companies }: MetricsOptions['registry'],
): Promise<void> {
  const { values } = await metric.get()
  for (const { labels } of values) {
    const { le: _, ...own } = labels as Record<string, string>
    if (!companies.has(own.company ?? '')) metric.remove(own)
  }
}

const NOW = 'Of this worker, now: sum over the workers.'
const EACH = 'Of each worker.'
const SAME = 'Here every worker shows the same, so take the max over them.'
/** The size of a memory page, the unit of statm in Linux; the same on everything that Node runs on. */
const PAGE_BYTES = 4096

type Watched = {
  readonly registry: Pick<CompanyRegistry, 'companies'> & Partial<Pick<CompanyRegistry, 'problem' | 'broken'>>
  readonly redis: Queues['redis']
  /** Why Redis cannot be used, even if it answers. */
  readonly redisProblem: Queues['problem']
  readonly slots?: Slots
  readonly concurrency?: number
  readonly alerts?: Pick<Alerts, 'active'>
}

/** Gauges of the worker itself, and of what it depends on. @returns a function that updates them. */
function createWorkerGauges(registry: Registry, watched: Watched): () => Promise<void> {
  const gauges = defineWorkerGauges(registry)
  gauges.version.set({ version: readVersion() }, 1)
  return async () => {
    const [memory, disks, raised] = await Promise.all([
      measureMemory(watched.slots ?? new Set()),
      listDisks(watched.registry),
      countAlerts(watched),
    ])
    // No await from here on: one of two concurrent scrapes must not see gauges that the other has just reset.
    showConfiguration(gauges, watched)
    showSlots(gauges, watched, memory)
    gauges.redis.set(watched.redis.status === 'ready' && watched.redisProblem() === null ? 1 : 0)
    gauges.alerts.reset()
    for (const { name, company } of raised) gauges.alerts.inc({ alert: name, company: company ?? '' })
    gauges.diskFree.reset()
    gauges.diskSize.reset()
    for (const { directory, freeBytes, bytes } of disks) {
      gauges.diskFree.set({ directory }, freeBytes)
      gauges.diskSize.set({ directory }, bytes)
    }
  }
}

type WorkerGauges = ReturnType<typeof defineWorkerGauges>

function defineWorkerGauges(registry: Registry) {
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help, labelNames, registers: [registry] })
  return {
    version: gauge('editais_build_info', `1, with the version of the program. ${EACH}`, ['version']),
    redis: gauge('editais_redis_up', `1 while Redis is connected and can be used, 0 otherwise. ${EACH}`),
    configuration: gauge(
      'editais_configuration_ok',
      `1 if the whole companies' file can be used, 0 if it or an entry is broken. ${EACH}`,
    ),
    broken: gauge(
      'editais_entry_broken',
      `1 for a company whose entry in the companies' file cannot be used, 0 for the others. ${EACH}`,
      ['company'],
    ),
    slots: gauge('editais_slots', `Limit of concurrent runs (WORKER_CONCURRENCY). ${NOW}`),
    slotsUsed: gauge('editais_slots_used', `Runs under way. ${NOW}`),
    started: gauge(
      'editais_run_started_timestamp_seconds',
      `When the company's current run began; absent without one. ${NOW}`,
      ['company'],
    ),
    memory: gauge(
      'editais_run_memory_bytes',
      `Resident memory of the company's current run; absent without one, and outside Linux. ${NOW}`,
      ['company'],
    ),
    alerts: gauge(
      'editais_alerts',
      `Raised alerts by name and company; the company is empty if the alert concerns none. Absent while Redis is away. ${SAME}`,
      ['alert', 'company'],
    ),
    diskFree: gauge(
      'editais_disk_free_bytes',
      `Space on the file system of DATA_DIR that this user may still use. ${SAME}`,
      ['directory'],
    ),
    diskSize: gauge('editais_disk_size_bytes', `Size of the file system of DATA_DIR. ${SAME}`, ['directory']),
  }
}

function showConfiguration({ configuration, broken }: WorkerGauges, { registry }: Watched): void {
  const { companies, problem = null, broken: entries = new Map<string, string>() } = registry
  configuration.set(problem === null && entries.size === 0 ? 1 : 0)
  broken.reset()
  for (const company of [...companies.keys(), ...entries.keys()]) {
    broken.set({ company }, entries.has(company) ? 1 : 0)
  }
}

function showSlots(gauges: WorkerGauges, watched: Watched, memory: ReadonlyMap<string, number>): void {
  const { slots = new Set(), concurrency = 0 } = watched
  gauges.slots.set(concurrency)
  gauges.slotsUsed.set(slots.size)
  gauges.started.reset()
  for (const { company, sinceMs } of slots) gauges.started.set({ company }, sinceMs / 1000)
  gauges.memory.reset()
  for (const [company, bytes] of memory) gauges.memory.set({ company }, bytes)
}

/** Returns the resident bytes of each run, by company. */
async function measureMemory(slots: Slots): Promise<ReadonlyMap<string, number>> {
  const found = await Promise.all(
    [...slots].map(async ({ company, pid }) => {
      const text = pid === null ? '' : await readFile(`/proc/${pid}/statm`, 'utf8').catch(() => '')
      return [company, Number(text.split(' ')[1] ?? 0) * PAGE_BYTES] as const
    }),
  )
  return new Map(found.filter(([, bytes]) => bytes > 0))
}

async function listDisks({ companies }: Watched['registry']) {
  const directories = new Set([...companies.values()].map(({ settings }) => settings.dataDir))
  const found = await Promise.all(
    [...directories].map(async directory => {
      const space = await statfs(directory).catch(() => null)
      if (space === null) return null
      return { directory, freeBytes: space.bavail * space.bsize, bytes: space.blocks * space.bsize }
    }),
  )
  return found.filter(disk => disk !== null)
}

async function countAlerts({ redis, alerts }: Watched) {
  if (!alerts) return []
  return await askRedis(redis, REDIS_WITHIN_MS, () => alerts.active()).catch(() => [])
}
