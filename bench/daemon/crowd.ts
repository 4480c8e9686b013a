import type { Server } from '../processes.ts'
import { type Configured, type Place, wrongTables } from './place.ts'
import { type Health, type Memory, untilIdle, watchHealth, watchMemory, watchOwnDelay } from './watch.ts'
import { type Run, startWorker, type Worker } from './worker.ts'

export const WORKERS = 2
/** Every company is requested again this often at each worker, before the first run can have ended. */
const REQUESTS = 2

/** Many companies, all due at once, on two workers. */
export type Crowd = {
  /** From the start of the workers to the end of the last company's first run. */
  readonly firstSeconds: number
  /** From the requests for another run of each company to the end of the last run. */
  readonly againSeconds: number
  /** Of each company's first run. */
  readonly durations: readonly number[]
  readonly runs: number
  readonly overlaps: number
  /** How often a worker got a company that another worker held. */
  readonly held: number
  /** Messages of level error in the workers' logs. */
  readonly errors: readonly string[]
  /** Of each worker. */
  readonly health: readonly Health[]
  /** Delay of our own timers during the measurement: only times above it are due to the workers. */
  readonly askerDelayP99Ms: number
  readonly memory: readonly Memory[]
  readonly stopSeconds: readonly number[]
}

/**
 * Starts both workers and waits for the first run of every company. Then requests all companies again, twice
 * from each worker: the workers must keep the runs of one company from overlapping.
 * @throws Error if a run failed, or a company's tables differ from its API.
 */
export async function measureCrowd(options: {
  server: Server
  companies: readonly Configured[]
  place: Place
  onStep: (step: string) => void
}): Promise<Crowd> {
  const { server, companies, place, onStep } = options
  onStep(`first run of ${companies.length} companies`)
  const fromMs = performance.now()
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => startWorker(place)))
  const watches = workers.map(worker => ({ health: watchHealth(worker), memory: watchMemory(worker) }))
  const ownDelay = watchOwnDelay()
  await untilRun(workers, companies, 1)
  const firstSeconds = (performance.now() - fromMs) / 1000
  const first = runsOf(workers)
  expectRuns(first, companies, { loaded: true })
  onStep('second run of all companies')
  const againMs = performance.now()
  await requestAll(workers, companies)
  await untilRun(workers, companies, 2)
  await untilIdle(workers[0] as Worker)
  const againSeconds = (performance.now() - againMs) / 1000
  const health = await Promise.all(watches.map(watch => watch.health.end()))
  const askerDelayP99Ms = ownDelay.end()
  const memory = watches.map(watch => watch.memory.end())
  const stopped = await Promise.all(workers.map(worker => worker.stop()))
  const runs = runsOf(workers)
  expectRuns(runs.slice(first.length), companies, { loaded: false })
  const wrong = await wrongTables(place, companies, server.about)
  if (wrong.length > 0) throw new Error(`Rows differ from the API: ${wrong.join(', ')}`)
  return {
    firstSeconds,
    againSeconds,
    health,
    askerDelayP99Ms,
    memory,
    durations: first.map(({ started_at, finished_at }) => (at(finished_at) - at(started_at)) / 1000),
    runs: runs.length,
    overlaps: overlaps(runs),
    errors: workers.flatMap(({ errors }) => errors),
    held: workers.reduce((sum, worker) => sum + worker.held(), 0),
    stopSeconds: stopped.map(({ seconds }) => seconds),
  }
}

/** In the order of their start. */
function runsOf(workers: readonly Worker[]): Run[] {
  return workers.flatMap(({ runs }) => runs).sort((a, b) => at(a.started_at) - at(b.started_at))
}

const at = (iso: string | null) => Date.parse(iso ?? '')

/** Waits until each company was synced this many times. */
async function untilRun(
  workers: readonly Worker[],
  companies: readonly Configured[],
  times: number,
): Promise<void> {
  for (;;) {
    const runs = runsOf(workers)
    const bad = runs.find(({ status }) => status !== 'ok')
    if (bad) throw new Error(`A run failed: ${JSON.stringify(bad)}`)
    const count = (slug: string) => runs.filter(({ company }) => company === slug).length
    if (companies.every(({ slug }) => count(slug) >= times)) return
    await Promise.race(workers.map(worker => worker.next()))
  }
}

async function requestAll(workers: readonly Worker[], companies: readonly Configured[]): Promise<void> {
  for (let request = 0; request < REQUESTS; request += 1) {
    await Promise.all(
      workers.map(async worker => {
        for (const { slug } of companies) await worker.requestSync(slug)
      }),
    )
  }
}

function expectRuns(
  runs: readonly Run[],
  companies: readonly Configured[],
  expected: { loaded: boolean },
): void {
  const notices = new Map(companies.map(company => [company.slug, company.notices]))
  const wrong = runs.find(run => run.loaded !== (expected.loaded ? notices.get(run.company) : 0))
  if (wrong) throw new Error(`Unexpected run: ${JSON.stringify(wrong)}`)
}

/** Counts runs that began before an earlier run of their company had ended. Expects them in order of start. */
export function overlaps(runs: readonly Pick<Run, 'company' | 'started_at' | 'finished_at'>[]): number {
  const endedMs = new Map<string, number>()
  let count = 0
  for (const { company, started_at, finished_at } of runs) {
    if (at(started_at) < (endedMs.get(company) ?? 0)) count += 1
    endedMs.set(company, Math.max(endedMs.get(company) ?? 0, at(finished_at)))
  }
  return count
}
