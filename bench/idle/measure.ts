import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis as Client } from 'ioredis'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/api/client/client.ts'
import { look } from '#src/pipeline/look.ts'
import { companyPaths } from '#src/store/company.ts'
import { writeLook } from '#src/store/state.ts'
import { commandOf } from '../command.ts'
import { runCosted } from '../cost.ts'
import type { Configured, Place } from '../daemon/place.ts'
import { cpuSeconds } from '../daemon/proc.ts'
import type { Redis } from '../daemon/redis.ts'
import { watchHealth } from '../daemon/watch.ts'
import { startWorker, type Worker } from '../daemon/worker.ts'
import { startWatch } from '../stopwatch.ts'

/** Often, so that the worker is measured at work. */
const PERIOD_SECONDS = 5
/** The first looks of a process compile their code. */
const WARM_UP = 20
const DAY_MS = 24 * 3_600_000

export type Measured = {
  /** CPU of each look in this process, with reading and writing its files; milliseconds, sorted. */
  readonly lookMs: readonly number[]
  /** CPU of a worker and its Redis for each of its looks, with everything around them; milliseconds. */
  readonly workerMs: number
  readonly redisMs: number
  readonly workerLooks: number
  /** /healthz of the worker meanwhile: the 99th percentile, in milliseconds. */
  readonly healthP99Ms: number
  /** CPU of a run that finds nothing; milliseconds. */
  readonly runMs: number
  /** Files that the looks of the worker added, beside the look's own state. */
  readonly filesAdded: number
  /** Runs that began although nothing was new. */
  readonly runsStarted: number
}

type Options = {
  readonly companies: readonly Configured[]
  readonly looks: number
  readonly seconds: number
  readonly place: Place
  readonly redis: Redis
  readonly onStep: (step: string) => void
}

export async function measureLooks(options: Options): Promise<Measured> {
  const { companies, place, onStep } = options
  onStep('first run of all companies')
  await syncAll(await startWorker(place), companies)
  onStep('a run that finds nothing')
  const runMs = await costOfRun(place, companies[0] as Configured)
  onStep('looks, one by one')
  const lookMs = await costOfLooks(options)
  onStep('a worker that looks')
  return { runMs, lookMs, ...(await costInWorker(options)) }
}

/** A second run follows the first, which leaves nothing to do. */
async function syncAll(worker: Worker, companies: readonly Configured[]): Promise<void> {
  while (new Set(worker.runs.map(({ company }) => company)).size < companies.length) await worker.next()
  await worker.stop()
}

async function costOfRun(place: Place, { slug }: Configured): Promise<number> {
  const command = await commandOf('sync')
  const args = [...command.args, '--company', slug, '--json']
  const { cpuSeconds: seconds } = await runCosted({ ...command, args, env: place.env, cwd: place.directory })
  return seconds * 1000
}

async function costOfLooks({ companies, looks, place }: Options): Promise<number[]> {
  const costs: number[] = []
  for (let n = 0; n < looks + WARM_UP; n += 1) {
    const company = companies[n % companies.length] as Configured
    const watch = startWatch()
    await lookOnce(place, company)
    costs.push(watch().cpuSeconds * 1000)
  }
  return costs.slice(WARM_UP).sort((a, b) => a - b)
}

/** What `jobs/looks.ts` does, without its alerts. */
async function lookOnce({ env, dataDir }: Place, { slug, apiKey }: Configured): Promise<void> {
  const environment = { ...env, COMPANY: slug, API_KEY: apiKey }
  const settings = readSettings(environment)
  const paths = companyPaths(dataDir, slug)
  const { signal } = new AbortController()
  const openApi = async () =>
    createApiClient({ ...readApiSettings(environment), signal, nowMs: Date.now, retries: 0 })
  const found = await look({ paths, settings, now: () => new Date(), maxAgeMs: DAY_MS, openApi, signal })
  if (found.isNew) throw new Error(`A look at ${slug} leaves the list to a run: ${found.why}`)
  await writeLook(paths, { at: new Date().toISOString(), run_id: found.state.last_run.run_id })
}

async function costInWorker({ companies, place, redis, seconds }: Options) {
  const client = new Client(redis.url)
  const env = {
    ...place.env,
    SYNC_CRON: `*/${PERIOD_SECONDS} * * * * *`,
    RUN_AT_LEAST_EVERY: '24h',
  }
  const worker = await startWorker({ ...place, env })
  // The first looks load what looks need.
  await sleep(3 * PERIOD_SECONDS * 1000)
  const before = await readCounters(worker, client)
  const files = await filesOf(place, companies)
  const health = watchHealth(worker)
  await sleep(seconds * 1000)
  const { p99 } = await health.end()
  const after = await readCounters(worker, client)
  const filesAfter = await filesOf(place, companies)
  const runsStarted = worker.runs.length
  await worker.stop()
  client.disconnect()
  const workerLooks = after.looks - before.looks
  return {
    workerLooks,
    runsStarted,
    workerMs: ((after.workerSeconds - before.workerSeconds) * 1000) / workerLooks,
    redisMs: ((after.redisSeconds - before.redisSeconds) * 1000) / workerLooks,
    healthP99Ms: p99,
    filesAdded: filesAfter - files,
  }
}

async function readCounters(worker: Worker, client: Client) {
  const metrics = await worker.metrics()
  const counts = metrics.matchAll(/^editais_looks_total\{company="[^"]+",result="nothing_new"\} (\d+)$/gm)
  const info = await client.info('cpu')
  const ofRedis = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1])
  return {
    looks: [...counts].reduce((sum, [, count]) => sum + Number(count), 0),
    workerSeconds: cpuSeconds(worker.pid),
    redisSeconds: ofRedis('used_cpu_user') + ofRedis('used_cpu_sys'),
  }
}

/** All files of the companies, but not the state of a look. */
async function filesOf({ dataDir }: Place, companies: readonly Configured[]): Promise<number> {
  let files = 0
  for (const { slug } of companies) {
    const { root, look: state } = companyPaths(dataDir, slug)
    for (const name of await readdir(root, { recursive: true })) {
      const path = join(root, name)
      if (!path.startsWith(state) && (await stat(path).catch(() => null))?.isFile()) files += 1
    }
  }
  return files
}
