import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis as Client } from 'ioredis'
import { cpuSeconds, rssBytes } from '#tools/proc.ts'
import { type Company, companiesOf, startApi } from '../company/api.ts'
import { type Place, placeOfAll, runAt } from '../company/place.ts'
import { type Figure, figure, megabytes, most, sum } from '../frame/figures.ts'
import { count, situation } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'
import { watchHealth } from '../processes/watch.ts'
import { startWorker, untilSynced, type Worker } from '../processes/worker.ts'

/** The company size for which the bars are set. */
const STATED_FOR = 400
/** Often, so that the worker is measured at work. */
const PERIOD_SECONDS = 5
/** Companies for which the load is computed. */
const MANY = 10_000
/** Two cores, each with a worker: a worker looks on one thread. */
const WORKERS = 2
/** The default schedule: all looks must end before the next ones are due. */
const DEFAULT_PERIOD_SECONDS = 300
const HOUR_SECONDS = 3600
/** Values of RUN_AT_LEAST_EVERY that are compared. */
const RUN_EVERY_HOURS = [1, 6, 24]

export const idle = situation({
  name: 'idle',
  about:
    'Looks: what companies with nothing new cost a worker with its Redis, and what many such companies would need at these costs.',
  options: {
    companies: count('number of companies that are measured', 20),
    notices: count('size of each company', 400),
    seconds: count('how long the worker is measured', 60),
  },
  needsProc: true,
  async measure(bench, options) {
    const { notices, seconds } = options
    bench.step('generating the companies')
    const companies = companiesOf(options.companies, options)
    const api = await startApi(companies)
    const redis = await startRedis(join(bench.directory, 'redis'))
    const settings = { API_BASE_URL: api.url, REDIS_URL: redis.url, REDIS_PREFIX: 'idle' }
    const place = await placeOfAll(await bench.folder('companies'), companies, settings)
    bench.step('first run of all companies')
    const first = await startWorker(place)
    await untilSynced(first, companies)
    await first.stop()
    bench.step('a run that finds nothing')
    const { slug } = companies[0] as Company
    const run = await runAt(place, 'sync', ['--company', slug, '--json'])
    bench.step('a worker that looks')
    const looks = await measureLooks(place, redis.url, seconds)
    await redis.close()
    await api.close()
    const costs = { ...looks, runMs: run.cpuSeconds * 1000 }
    return figuresOf(costs, notices <= STATED_FOR)
  },
})

/** Milliseconds are of CPU time. */
type Costs = {
  readonly looks: number
  /** Of the worker and its Redis for each look, with the tick, the job and all that goes on beside. */
  readonly workerMs: number
  readonly redisMs: number
  /** Of a run that finds nothing. */
  readonly runMs: number
  readonly healthP99Ms: number
  readonly rss: number
}

/** @throws Error if the worker began a run. */
async function measureLooks(place: Place, redisUrl: string, seconds: number): Promise<Omit<Costs, 'runMs'>> {
  const client = new Client(redisUrl)
  const schedule = { SYNC_CRON: `*/${PERIOD_SECONDS} * * * * *`, RUN_AT_LEAST_EVERY: '24h' }
  const worker = await startWorker({ ...place, env: { ...place.env, ...schedule } })
  // The first looks load what looks need.
  await sleep(3 * PERIOD_SECONDS * 1000)
  const before = await readCounters(worker, client)
  const health = watchHealth(worker.url)
  await sleep(seconds * 1000)
  const { p99 } = await health.end()
  const after = await readCounters(worker, client)
  const rss = rssBytes(worker.pid)
  if (worker.log.runs.length > 0) throw new Error(`A run began: ${JSON.stringify(worker.log.runs[0])}`)
  await worker.stop()
  client.disconnect()
  const looks = after.looks - before.looks
  return {
    looks,
    workerMs: ((after.workerSeconds - before.workerSeconds) * 1000) / looks,
    redisMs: ((after.redisSeconds - before.redisSeconds) * 1000) / looks,
    healthP99Ms: p99,
    rss,
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

function figuresOf(
  { looks, workerMs, redisMs, runMs, healthP99Ms, rss }: Costs,
  isStated: boolean,
): Figure[] {
  const lookMs = workerMs + redisMs
  const secondsOfAll = (ms: number) => (MANY * ms) / 1000 / WORKERS
  const load = secondsOfAll(lookMs) / DEFAULT_PERIOD_SECONDS
  const last = `${MANY} companies on two cores: all looks take, s`
  return [
    figure('worker_ms', 'a worker: CPU a look with everything around it, ms', 1, workerMs),
    figure('redis_ms', 'its Redis: CPU a look, ms', 1, redisMs),
    figure('all_ms', 'a look with its job and Redis: CPU, ms', 1, lookMs, most(60, isStated)),
    figure('health_p99_ms', `/healthz meanwhile (${looks} looks): p99, ms`, 0, healthP99Ms),
    figure('rss_megabytes', 'the worker: RSS, MB', 0, megabytes(rss)),
    figure('run_ms', 'a run that finds nothing: CPU, ms', 0, runMs),
    figure('last_seconds', last, 0, secondsOfAll(lookMs), most(DEFAULT_PERIOD_SECONDS, isStated)),
    figure('load_percent', '… load of the cores by looks, %', 0, load * 100),
    ...RUN_EVERY_HOURS.map(hours => {
      const percent = (load + secondsOfAll(runMs) / (hours * HOUR_SECONDS)) * 100
      return figure(`load_${hours}h_percent`, `… and a run of each every ${hours} h, %`, 0, percent)
    }),
  ]
}
