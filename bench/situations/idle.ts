import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis as Client } from 'ioredis'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { writeLook } from '#src/core/company/state.ts'
import { look } from '#src/operate/look.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { cpuSeconds } from '#tools/proc.ts'
import { type Company, companiesOf, startApi } from '../company/api.ts'
import { filesOf } from '../company/files.ts'
import { type Place, pathsOf, placeOfAll, runAt } from '../company/place.ts'
import { type Figure, figure, most, percentile, sum } from '../frame/figures.ts'
import { count, situation } from '../frame/situation.ts'
import { startWatch } from '../processes/costs.ts'
import { startRedis } from '../processes/redis.ts'
import { watchHealth } from '../processes/watch.ts'
import { startWorker, type Worker } from '../processes/worker.ts'

/** The company size for which the bars are set. */
const STATED_FOR = 400
/** Often, so that the worker is measured at work. */
const PERIOD_SECONDS = 5
/** The first looks of a process compile their code. */
const WARM_UP = 20
const DAY_MS = 24 * 3_600_000
/** All looks of the default schedule must end before the next ones are due. */
const LAST_LOOK_SECONDS = 300

/** Two cores, each with a worker: a worker looks on one thread. */
const WORKERS = 2
/** The default schedule, and over how much of it ticks are spread (`jobs/queues/company_registry.ts`). */
const PERIOD_MS = 5 * 60_000
const SPREAD_MS = 60_000
const HOUR_MS = 3_600_000

export const idle = situation({
  name: 'idle',
  about:
    'Looks: what companies with nothing new cost the worker, one by one and with its own Redis; then simulates five minutes of many such companies at these costs.',
  options: {
    companies: count('number of companies that are measured', 20),
    notices: count('size of each company', 400),
    looks: count('looks measured one by one', 400),
    seconds: count('how long the worker is measured', 60),
    scheduled: count('companies that are simulated', 10_000),
  },
  needsProc: true,
  async measure(bench, options) {
    const { notices, scheduled, seed, looks, seconds } = options
    bench.step('generating the companies')
    const companies = companiesOf(options.companies, options)
    const api = await startApi(companies)
    const redis = await startRedis(join(bench.directory, 'redis'))
    const settings = { API_BASE_URL: api.url, REDIS_URL: redis.url, REDIS_PREFIX: 'idle' }
    const place = await placeOfAll(await bench.folder('companies'), companies, settings)
    bench.step('first run of all companies')
    await syncAll(await startWorker(place), companies)
    bench.step('a run that finds nothing')
    const { slug } = companies[0] as Company
    const runMs = (await runAt(place, 'sync', ['--company', slug, '--json'])).cpuSeconds * 1000
    bench.step('looks, one by one')
    const lookMs = await costOfLooks(place, companies, looks)
    bench.step('a worker that looks')
    const inWorker = await costInWorker(place, { companies, redisUrl: redis.url, seconds })
    await redis.close()
    await api.close()
    const costs = { runMs, lookMs, ...inWorker }
    return figuresOf(costs, { scheduled, seed, isStated: notices <= STATED_FOR })
  },
})

/** A second run follows the first, which leaves nothing to do. */
async function syncAll(worker: Worker, companies: readonly Company[]): Promise<void> {
  while (new Set(worker.log.runs.map(({ company }) => company)).size < companies.length) await worker.next()
  await worker.stop()
}

async function costOfLooks(place: Place, companies: readonly Company[], looks: number): Promise<number[]> {
  const costs: number[] = []
  for (let n = 0; n < looks + WARM_UP; n += 1) {
    const watch = startWatch()
    await lookOnce(place, companies[n % companies.length] as Company)
    costs.push(watch().cpuSeconds * 1000)
  }
  return costs.slice(WARM_UP)
}

/** Looks as `jobs/looks.ts` does, without its alerts. */
async function lookOnce(place: Place, { slug, apiKey }: Company): Promise<void> {
  const environment = { ...place.env, COMPANY: slug, API_KEY: apiKey }
  const settings = readSettings(environment)
  const paths = pathsOf(place, slug)
  const { signal } = new AbortController()
  const openApi = async () =>
    createApiClient({ ...readApiSettings(environment), signal, nowMs: Date.now, retries: 0 })
  const found = await look({ paths, settings, now: () => new Date(), maxAgeMs: DAY_MS, openApi, signal })
  if (found.isNew) throw new Error(`A look at ${slug} leaves the list to a run: ${found.why}`)
  await writeLook(paths, { at: new Date().toISOString(), run_id: found.state.last_run.run_id })
}

type InWorker = Pick<Costs, 'workerMs' | 'redisMs'> & {
  readonly looks: number
  readonly healthP99Ms: number
  /** Files that the looks added, beside the look's own state. */
  readonly filesAdded: number
  /** Runs that began although nothing was new. */
  readonly runsStarted: number
}

/** A worker with its Redis, for each of its looks. */
async function costInWorker(
  place: Place,
  about: { readonly companies: readonly Company[]; readonly redisUrl: string; readonly seconds: number },
): Promise<InWorker> {
  const { companies, redisUrl, seconds } = about
  const client = new Client(redisUrl)
  const schedule = { SYNC_CRON: `*/${PERIOD_SECONDS} * * * * *`, RUN_AT_LEAST_EVERY: '24h' }
  const worker = await startWorker({ ...place, env: { ...place.env, ...schedule } })
  // The first looks load what looks need.
  await sleep(3 * PERIOD_SECONDS * 1000)
  const before = await readCounters(worker, client)
  const files = await countFiles(place, companies)
  const health = watchHealth(worker.url)
  await sleep(seconds * 1000)
  const { p99 } = await health.end()
  const after = await readCounters(worker, client)
  const filesAdded = (await countFiles(place, companies)) - files
  const runsStarted = worker.log.runs.length
  await worker.stop()
  client.disconnect()
  const looks = after.looks - before.looks
  return {
    ...{ looks, runsStarted, filesAdded },
    workerMs: ((after.workerSeconds - before.workerSeconds) * 1000) / looks,
    redisMs: ((after.redisSeconds - before.redisSeconds) * 1000) / looks,
    healthP99Ms: p99,
  }
}

async function readCounters(worker: Worker, client: Client) {
  const metrics = await worker.metrics()
  const counts = metrics.matchAll(/^editais_looks_total\{company="[^"]+",result="nothing_new"\} (\d+)$/gm)
  const info = await client.info('cpu')
  const ofRedis = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  return {
    looks: sum([...counts].map(([, count]) => Number(count))),
    workerSeconds: cpuSeconds(worker.pid),
    redisSeconds: ofRedis('used_cpu_user') + ofRedis('used_cpu_sys'),
  }
}

/** All files of the companies, but not the state of a look. */
async function countFiles(place: Place, companies: readonly Company[]): Promise<number> {
  let count = 0
  for (const { slug } of companies) {
    const { root, look: state } = pathsOf(place, slug)
    const files = await filesOf(root)
    count += files.filter(({ path }) => !join(root, path).startsWith(state)).length
  }
  return count
}

function figuresOf(
  costs: Costs & InWorker,
  about: { readonly scheduled: number; readonly seed: string; readonly isStated: boolean },
): Figure[] {
  const { lookMs, workerMs, redisMs, looks, healthP99Ms, runMs, runsStarted, filesAdded } = costs
  const { scheduled, isStated } = about
  const { waitMs, lastMs, load, loadWithRuns } = simulate(costs, scheduled, about.seed)
  const p50 = percentile(lookMs, 0.5)
  const all = workerMs + redisMs
  const many = `${scheduled} companies:`
  return [
    figure('look_p50_ms', 'a look: CPU, median, ms', 1, p50, most(20, isStated)),
    figure('look_p99_ms', 'a look: CPU, p99, ms', 1, percentile(lookMs, 0.99)),
    figure('worker_ms', 'a worker: CPU a look with everything around it, ms', 1, workerMs),
    figure('redis_ms', 'its Redis: CPU a look, ms', 1, redisMs),
    figure('all_ms', 'a look with its job and Redis: CPU, ms', 1, all, most(60, isStated)),
    figure('health_p99_ms', `/healthz meanwhile (${looks} looks): p99, ms`, 0, healthP99Ms),
    figure('runs_started', 'runs without anything new', 0, runsStarted, most(0)),
    figure('files_added', 'files added by looks', 0, filesAdded, most(0)),
    figure('run_ms', 'a run that finds nothing: CPU, ms', 0, runMs),
    figure('wait_p50_seconds', `${many} from tick to end, p50, s`, 1, waitMs.p50 / 1000),
    figure('wait_p99_seconds', `${many} from tick to end, p99, s`, 1, waitMs.p99 / 1000),
    figure('last_seconds', `${many} the last look, s`, 1, lastMs / 1000, most(LAST_LOOK_SECONDS, isStated)),
    figure('load_percent', `${many} load of two cores by looks, %`, 0, load * 100),
    ...loadWithRuns.map(({ everyHours, load }) =>
      figure(`load_${everyHours}h_percent`, `… and a run of each every ${everyHours} h, %`, 0, load * 100),
    ),
  ]
}

/** The costs that were measured, in milliseconds of CPU. */
type Costs = {
  /** Of each look in this process, with reading and writing its files. */
  readonly lookMs: readonly number[]
  /** Of a worker and its Redis for each of its looks, with everything around them. */
  readonly workerMs: number
  readonly redisMs: number
  /** Of a run that finds nothing. */
  readonly runMs: number
}

/** A simulated period of many companies with nothing new, at the measured costs. */
type Simulated = {
  /** From a company's tick to the end of its look; milliseconds. */
  readonly waitMs: { readonly p50: number; readonly p99: number }
  /** From the first tick to the end of the last look. */
  readonly lastMs: number
  /** Share of both cores that the looks take, and with the runs that RUN_AT_LEAST_EVERY asks for. */
  readonly load: number
  readonly loadWithRuns: readonly { readonly everyHours: number; readonly load: number }[]
}

function simulate({ lookMs, workerMs, redisMs, runMs }: Costs, scheduled: number, seed: string): Simulated {
  const random = createRandom(`idle ${seed}`)
  const mean = sum(lookMs) / lookMs.length
  // What the queue and its Redis cost comes on top of each look.
  const aroundMs = Math.max(0, workerMs + redisMs - mean)
  const ticks = Array.from({ length: scheduled }, () => random.next() * SPREAD_MS).sort((a, b) => a - b)
  const freeMs = Array.from({ length: WORKERS }, () => 0)
  const waits: number[] = []
  for (const tick of ticks) {
    const worker = freeMs.indexOf(Math.min(...freeMs))
    const end = Math.max(tick, freeMs[worker] as number) + random.pick(lookMs) + aroundMs
    freeMs[worker] = end
    waits.push(end - tick)
  }
  const load = (scheduled * (mean + aroundMs)) / PERIOD_MS / WORKERS
  return {
    waitMs: { p50: percentile(waits, 0.5), p99: percentile(waits, 0.99) },
    lastMs: Math.max(...freeMs),
    load,
    loadWithRuns: [1, 6, 24].map(everyHours => ({
      everyHours,
      load: load + (scheduled * runMs) / (everyHours * HOUR_MS) / WORKERS,
    })),
  }
}
