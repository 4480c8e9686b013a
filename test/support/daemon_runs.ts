import { expect, onTestFinished } from 'vitest'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { createLogger } from '#src/lib/log.ts'
import type { Entry } from '#src/sandbox/world.ts'
import type { LogLine } from '#tools/service_process.ts'
import { type Daemon, startDaemon, until } from './daemon.ts'
import { leaveFirstRun } from './first_run.ts'
import type { Environment, Started } from './project.ts'
import { readMetrics } from './prometheus.ts'
import { openRedis } from './redis.ts'
import { type SyncedCompany, startCompany } from './synced.ts'

/** Schedules: only once, at the start; and every two seconds. */
export const NEVER = '0 0 1 1 *'
export const OFTEN = '*/2 * * * * *'
/** Every tick leads to a run; otherwise looks replace the runs that would find nothing new. */
export const NO_LOOKS = { RUN_AT_LEAST_EVERY: '0s' }

/** Settings for a worker of this test in the Redis that all tests share. */
export async function redisSettings(): Promise<{ REDIS_URL: string; REDIS_PREFIX: string }> {
  const { url, prefix } = await openRedis()
  return { REDIS_URL: url, REDIS_PREFIX: prefix }
}

/**
 * A company, and the environment of its workers: a worker that stops responding is noticed soon, and requests
 * that a test holds do not time out.
 */
export async function startAcme(
  entries: Iterable<Entry>,
  settings: Environment = {},
): Promise<{ company: SyncedCompany; environment: Environment }> {
  const patient = { SYNC_CRON: NEVER, JOB_LOCK_MS: '3000', API_TIMEOUT_MS: '60000' }
  const company = await startCompany(entries, { ...patient, ...settings })
  return { company, environment: { ...company.environment, ...(await redisSettings()) } }
}

/** A worker of a company like that of `startAcme` that has had its first run, and is idle. */
export async function startIdle(
  entries: Iterable<Entry>,
  settings: Environment = {},
): Promise<{ company: SyncedCompany; environment: Environment; worker: Daemon }> {
  const { company, environment: shared } = await startAcme(entries)
  await leaveFirstRun(company.world, company.environment)
  company.sandbox.requests.reset()
  const environment = { ...shared, ...settings }
  const worker = await startDaemon(environment)
  await until(async () => (await worker.ask('/readyz')).ok, { what: 'a ready worker' })
  await untilIdle(worker)
  return { company, environment, worker }
}

/** The last log line of a run. */
export type RunLine = LogLine & RunReport & { readonly job: string }

export function isRun(line: LogLine, company?: string): line is RunLine {
  return line.msg === 'run finished' && (company === undefined || line.company === company)
}

/** Runs that have ended, in order of their start. */
export function runsOf(daemons: Daemon | readonly Daemon[], company?: string): RunLine[] {
  return [daemons]
    .flat()
    .flatMap(({ lines }) => lines.filter(line => isRun(line, company)))
    .sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at))
}

/** The next run of the company to end, from now on or after `after` lines. */
export async function nextRun(
  daemon: Daemon,
  company?: string,
  after = daemon.lines.length,
): Promise<RunLine> {
  return (await daemon.waitFor(line => isRun(line, company), { after })) as RunLine
}

/** Each run must begin after the previous one has ended. */
export function expectNoOverlap(runs: readonly Pick<RunReport, 'started_at' | 'finished_at'>[]): void {
  for (const [index, { started_at }] of runs.entries()) {
    const before = runs[index - 1]
    if (before) expect(Date.parse(started_at)).toBeGreaterThanOrEqual(Date.parse(before.finished_at ?? ''))
  }
}

/** Runs in the queue: active and waiting. */
export async function queuedRuns(daemon: Daemon): Promise<{ active: number; waiting: number }> {
  const counts = await until(
    async () => {
      const text = await (await daemon.ask('/metrics')).text()
      const found = [...text.matchAll(/^editais_queue_jobs\{queue="runs",state="(\S+)"\} (\d+)$/gm)]
      return found.length > 0 && found
    },
    { what: 'queue counts in /metrics' },
  )
  const sum = (states: readonly string[]) =>
    counts.reduce((total, [, state = '', count]) => total + (states.includes(state) ? Number(count) : 0), 0)
  return {
    active: sum(['active']),
    waiting: sum(['waiting', 'delayed', 'prioritized', 'paused', 'waiting-children']),
  }
}

/** Resolves when no run is active or waiting. */
export async function untilIdle(daemon: Daemon): Promise<void> {
  await until(
    async () => {
      const { active, waiting } = await queuedRuns(daemon)
      return active + waiting === 0
    },
    { what: 'an empty queue of runs' },
  )
}

/** Looks of this worker so far, by result. */
export async function looksOf(daemon: Daemon): Promise<{ nothing_new: number; run: number }> {
  const scraped = await readMetrics(await (await daemon.ask('/metrics')).text())
  const { values = {} } = scraped.get('editais_looks_total') ?? {}
  return {
    nothing_new: values['company=acme,result=nothing_new'] ?? 0,
    run: values['company=acme,result=run'] ?? 0,
  }
}

/**
 * Resolves when so many looks of the first worker in a row have found nothing new, and no run of any of the
 * workers has ended in between. A tick during a run requests another run, so the first looks of a slow machine may lie
 * between runs.
 */
export async function untilOnlyLooks(workers: readonly [Daemon, ...Daemon[]], looks: number): Promise<void> {
  let before = { runs: -1, nothing_new: 0 }
  await until(
    async () => {
      const { nothing_new } = await looksOf(workers[0])
      const runs = runsOf(workers).length
      if (runs !== before.runs) before = { runs, nothing_new }
      return nothing_new - before.nothing_new >= looks
    },
    { what: `${looks} looks without a run`, withinMs: 120_000 },
  )
}

/** The schedulers in Redis, by name: pattern and time zone. */
export async function schedulersIn(environment: Environment): Promise<Record<string, string>> {
  const schedulers = await queuesOf(environment).ticks.getJobSchedulers(0, -1, true)
  return Object.fromEntries(schedulers.map(({ key, pattern, tz }) => [key, `${pattern} ${tz}`]))
}

/** Active runs according to the queue, if no worker can answer. */
export async function activeIn(environment: Environment): Promise<number> {
  return await queuesOf(environment).runs.getActiveCount()
}

function queuesOf({ REDIS_URL: url = '', REDIS_PREFIX: prefix = '' }: Environment): Queues {
  const queues = openQueues({ url, prefix }, createLogger('error', {}))
  onTestFinished(() => queues.close())
  return queues
}

/** Like `ask`, but waits until the worker has reached its Redis. */
async function askReady(daemon: Daemon, path: string, init: RequestInit = {}): Promise<Response> {
  return await until(
    async () => {
      const response = await daemon.ask(path, init)
      return response.status !== 503 && response
    },
    { what: 'an answer of Redis' },
  )
}

/** Requests a run over HTTP; returns the job's id. */
export async function requestSync(
  daemon: Daemon,
  company: string,
  { full = false }: { full?: boolean } = {},
): Promise<string> {
  const response = await askReady(daemon, `/companies/${company}/sync`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ full }),
  })
  const answer = await response.json()
  expect({ status: response.status, answer }).toMatchObject({ status: 202, answer: { company, full } })
  return (answer as { job: string }).job
}

/** The failure reasons of the jobs on the board. */
export async function failedJobs(daemon: Daemon): Promise<string[]> {
  const response = await askReady(
    daemon,
    '/queues/api/queues?activeQueue=runs&status=failed&page=1&jobsPerPage=10',
  )
  const { queues } = (await response.json()) as {
    queues: { name: string; jobs: { failedReason: string }[] }[]
  }
  return queues.filter(({ name }) => name === 'runs').flatMap(({ jobs }) => jobs.map(job => job.failedReason))
}

/** Returns a function for the command's stderr so far. */
export function listenTo({ child }: Started): () => string {
  let output = ''
  child.stderr?.on('data', (text: string) => {
    output += text
  })
  return () => output
}

/** Starts two workers; resolves once one of them has started the run. */
export async function startTwoWorkers(environment: Environment): Promise<{ busy: Daemon; idle: Daemon }> {
  const workers = await Promise.all([startDaemon(environment), startDaemon(environment)])
  const busy = await until(
    async () => {
      for (const worker of workers) if (worker.runs().length > 0) return worker
      return null
    },
    { what: 'a run' },
  )
  return { busy, idle: workers.find(worker => worker !== busy) as Daemon }
}
