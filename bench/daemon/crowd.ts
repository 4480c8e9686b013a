import { setTimeout as sleep } from 'node:timers/promises'
import { cpuSeconds, rssBytes } from '#tools/proc.ts'
import type { Api, Company } from '../company/api.ts'
import { expectTables, type Place } from '../company/place.ts'
import { type Figure, figure, median, megabytes, most, sum } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { watchHealth, watchMemory, watchOwnDelay } from '../processes/watch.ts'
import {
  overlaps,
  type Run,
  runsOf,
  secondsOf,
  startWorker,
  untilIdle,
  type Worker,
} from '../processes/worker.ts'

const WORKERS = 2
/** Every company is requested again this often at each worker, before the first run can have ended. */
const REQUESTS = 2

export type Crowd = { readonly api: Api; readonly companies: readonly Company[]; readonly place: Place }

/**
 * Many companies, all due at once: starts both workers and waits for the first run of every company. Then requests all
 * companies again, twice from each worker: the workers must keep the runs of one company from overlapping.
 * @throws Error if a run failed, or a company's tables differ from its API.
 */
export async function measureCrowd(bench: Bench, { api, companies, place }: Crowd): Promise<Figure[]> {
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => startWorker(place)))
  const watches = workers.map(({ url, pid }) => ({ health: watchHealth(url), memory: watchMemory(pid) }))
  const ownDelay = watchOwnDelay()
  const runs = await measureRuns(bench, workers, companies)
  const health = await Promise.all(watches.map(watch => watch.health.end()))
  const askerMs = ownDelay.end()
  const memory = watches.map(watch => watch.memory.end())
  const stopped = await Promise.all(workers.map(worker => worker.stop()))
  await expectTables(place, companies, api)
  const errors = workers.flatMap(({ log }) => log.errors)
  for (const error of errors) bench.note(`An error in the log of a worker: ${error}`)
  const peak = megabytes(worst(memory, m => m.peakBytes))
  const alone = megabytes(worst(memory, m => m.ownBytes))
  return [
    ...runs,
    figure(
      'health_p50_ms',
      '  /healthz of either worker: p50, ms',
      1,
      worst(health, h => h.p50),
    ),
    figure(
      'health_p99_ms',
      '  /healthz of either worker: p99, ms',
      1,
      worst(health, h => h.p99),
      most(100),
    ),
    figure(
      'health_max_ms',
      '  /healthz of either worker: max, ms',
      1,
      worst(health, h => h.max),
    ),
    figure('asker_p99_ms', '  timer delay of the benchmark itself: p99, ms', 1, askerMs),
    figure('health_failed', '  /healthz: unanswered or not 200', 0, sum(health.map(h => h.failed)), most(0)),
    figure('worker_peak_rss_megabytes', '  a worker with its runs: peak RSS, MB', 0, peak, most(1500)),
    figure('daemon_peak_rss_megabytes', '  the daemon alone: peak RSS, MB', 0, alone),
    figure(
      'quiet_stop_seconds',
      'SIGTERM to exit, no runs, s',
      2,
      worst(stopped, s => s.seconds),
    ),
  ]
}

function worst<T>(all: readonly T[], of: (one: T) => number): number {
  return Math.max(...all.map(of))
}

/** The first run of all companies, and the ones that are requested then. */
async function measureRuns(
  bench: Bench,
  workers: readonly Worker[],
  companies: readonly Company[],
): Promise<Figure[]> {
  const logs = workers.map(({ log }) => log)
  const slugs = companies.map(({ slug }) => slug)
  bench.step(`first run of ${companies.length} companies`)
  await untilRun(workers, slugs, 1)
  const firstSeconds = workers[0]?.seconds() ?? 0
  const first = runsOf(logs)
  expectRuns(first, companies, { loaded: true })
  bench.step('second run of all companies')
  const againMs = performance.now()
  for (let request = 0; request < REQUESTS; request += 1)
    await Promise.all(workers.map(worker => requestAll(worker, slugs)))
  await untilRun(workers, slugs, 2)
  await untilIdle(workers[0] as Worker)
  const againSeconds = (performance.now() - againMs) / 1000
  const runs = runsOf(logs)
  expectRuns(runs.slice(first.length), companies, { loaded: false })
  return [
    figure('first_seconds', 'all companies for the first time: wall, s', 1, firstSeconds),
    figure('company_median_seconds', '  a company: median, s', 2, median(first.map(secondsOf))),
    figure('company_max_seconds', '  a company: max, s', 2, worst(first, secondsOf)),
    figure('again_seconds', 'requested again at both workers: wall, s', 1, againSeconds),
    figure('runs', 'in both: runs', 0, runs.length),
    figure('overlaps', '  runs of a company that overlap', 0, overlaps(runs), most(0)),
    figure('held', '  runs that found their company held', 0, sum(logs.map(({ held }) => held))),
  ]
}

/** Waits until each company was synced this many times. @throws Error if a run failed. */
export async function untilRun(
  workers: readonly Worker[],
  slugs: readonly string[],
  times: number,
): Promise<void> {
  for (;;) {
    const runs = runsOf(workers.map(({ log }) => log))
    const bad = runs.find(({ status }) => status !== 'ok')
    if (bad) throw new Error(`A run failed: ${JSON.stringify(bad)}`)
    const count = (slug: string) => runs.filter(({ company }) => company === slug).length
    if (slugs.every(slug => count(slug) >= times)) return
    await Promise.race(workers.map(worker => worker.next()))
  }
}

async function requestAll(worker: Worker, slugs: readonly string[]): Promise<void> {
  for (const slug of slugs) await worker.requestSync(slug)
}

function expectRuns(
  runs: readonly Run[],
  companies: readonly Company[],
  { loaded }: { loaded: boolean },
): void {
  const notices = new Map(companies.map(company => [company.slug, company.notices]))
  const wrong = runs.find(run => run.loaded !== (loaded ? notices.get(run.company) : 0))
  if (wrong) throw new Error(`Unexpected run: ${JSON.stringify(wrong)}`)
}

/** A worker without work. Expects that all companies were synced, so nothing is due. Takes three times `seconds`. */
export async function measureIdle(
  bench: Bench,
  { companies, place }: Omit<Crowd, 'api'>,
  seconds: number,
): Promise<Figure[]> {
  bench.step('idle')
  const worker = await startWorker(place)
  await sleep(seconds * 500)
  const before = rssBytes(worker.pid)
  const shareBefore = await cpuShare(worker.pid, seconds)
  bench.step('idle after a run')
  await Promise.all([worker.next(), worker.requestSync((companies[0] as Company).slug)])
  await sleep(seconds * 500)
  const after = rssBytes(worker.pid)
  const percent = Math.max(shareBefore, await cpuShare(worker.pid, seconds)) * 100
  const runs = worker.log.runs.length
  if (runs !== 1) throw new Error(`The worker was not idle: ${runs} runs instead of 1`)
  await worker.stop()
  return [
    figure('idle_rss_megabytes', 'idle: RSS, MB', 1, megabytes(before), most(150)),
    figure('idle_after_run_rss_megabytes', 'idle after a run: RSS, MB', 1, megabytes(after), most(150)),
    figure('idle_cpu_percent', 'idle: CPU, % of a core', 2, percent, most(1)),
  ]
}

async function cpuShare(pid: number, seconds: number): Promise<number> {
  const fromMs = performance.now()
  const before = cpuSeconds(pid)
  await sleep(seconds * 1000)
  return (cpuSeconds(pid) - before) / ((performance.now() - fromMs) / 1000)
}
