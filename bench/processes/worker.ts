import type { RunReport } from '#src/core/company/run_report.ts'
import { childrenOf, isRunning, signal } from '#tools/proc.ts'
import type { LogLine } from '#tools/service_process.ts'
import { beforeKillAll } from './processes.ts'
import { type ServiceOptions, startService } from './service.ts'

const ADMIN_TOKEN = 'adm_of_the_bench_only'
/** No run of the bench takes longer. */
const RUN_WITHIN_MS = 10 * 60_000
/** Logged if a run of this worker ended because another worker had taken its company over. */
const TAKEN_OVER = /: another worker (took over|has sealed) /

/** A run's report, as in its last log line. */
export type Run = RunReport & { readonly company: string }

/** The log of a worker, with the lines of its runs. */
type Log = {
  /** Runs that have ended so far. */
  readonly runs: Run[]
  /** Messages of level error. */
  readonly errors: string[]
  /** How many runs ended because another worker had taken their company over. */
  takenOver: number
}

/** A worker as `npm start` starts it. */
export type Worker = {
  readonly pid: number
  readonly url: string
  readonly log: Readonly<Log>
  /** The seconds since its start. */
  seconds(): number
  /** Resolves when the next run ends. @throws Error if the worker ends first, or no run ends in time. */
  next(): Promise<Run>
  /** Requests a sync of a company over HTTP. */
  requestSync(company: string): Promise<void>
  /** The text of `/metrics`. */
  metrics(): Promise<string>
  /** SIGTERM; resolves when it has exited. */
  stop(): Promise<Stopped>
  /** Kills it and its runs, as the loss of a host does; resolves when it has exited. */
  kill(): Promise<void>
}

export type Stopped = {
  /** From the signal to the exit. */
  readonly seconds: number
  /** Runs that outlived the worker. */
  readonly leftBehind: number
}

/** Starts a worker, as `startService` does. */
export async function startWorker(options: Omit<ServiceOptions, 'onLine'>): Promise<Worker> {
  const log: Log = { runs: [], errors: [], takenOver: 0 }
  let waiting = Promise.withResolvers<Run>()
  const service = await startService('start', {
    ...options,
    env: { ADMIN_TOKEN, ...options.env },
    onLine(line) {
      const run = readLine(line, log)
      if (!run) return
      waiting.resolve(run)
      waiting = Promise.withResolvers()
    },
  })
  const { pid, url, early, last } = service
  const forget = beforeKillAll(async () => killRuns(pid))
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${url}${path}`, { headers, ...init })
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
    return await response.text()
  }
  return {
    pid,
    url,
    log,
    seconds: service.seconds,
    next: () => soon(Promise.race([waiting.promise, early]), last),
    requestSync: async company => {
      await ask(`/companies/${company}/sync`, { method: 'POST', body: '{}' })
    },
    metrics: () => ask('/metrics'),
    async stop() {
      const runs = childrenOf(pid)
      const { seconds } = await service.end('SIGTERM')
      forget()
      return { seconds, leftBehind: runs.filter(isRunning).length }
    },
    async kill() {
      killRuns(pid)
      await service.end('SIGKILL')
      forget()
    },
  }
}

async function soon<T>(awaited: Promise<T>, last: readonly string[]): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error(`No run ended within ${RUN_WITHIN_MS / 1000} s:\n${last.join('\n')}`)),
    RUN_WITHIN_MS,
  )
  return await Promise.race([awaited, late.promise]).finally(() => clearTimeout(timer))
}

/** Without their worker runs would end by themselves, but keep writing until then. */
function killRuns(pid: number): void {
  // So that it starts no other one meanwhile.
  signal(pid, 'SIGSTOP')
  for (const run of childrenOf(pid)) signal(run, 'SIGKILL')
}

/** Adds a line to the log. @returns the run that it reports as ended. */
function readLine(line: LogLine, log: Log): Run | null {
  if (TAKEN_OVER.test(line.msg)) log.takenOver += 1
  if (line.level === 'error') log.errors.push(line.msg)
  if (line.msg !== 'run finished') return null
  const run = line as LogLine & Run
  log.runs.push(run)
  return run
}

/** Waits until each company was synced. @throws Error if a run failed. */
export async function untilSynced(
  worker: Worker,
  companies: readonly { readonly slug: string }[],
): Promise<void> {
  for (;;) {
    const { runs } = worker.log
    const bad = runs.find(({ status }) => status !== 'ok')
    if (bad) throw new Error(`A run failed: ${JSON.stringify(bad)}`)
    if (companies.every(({ slug }) => runs.some(({ company }) => company === slug))) return
    await worker.next()
  }
}

type Times = Pick<Run, 'company' | 'started_at' | 'finished_at'>

/** Counts runs that began before an earlier run of their company had ended. */
export function overlaps(runs: readonly Times[]): number {
  const endedMs = new Map<string, number>()
  let count = 0
  const inOrder = runs.toSorted((a, b) => at(a.started_at) - at(b.started_at))
  for (const { company, started_at, finished_at } of inOrder) {
    if (at(started_at) < (endedMs.get(company) ?? 0)) count += 1
    endedMs.set(company, Math.max(endedMs.get(company) ?? 0, at(finished_at)))
  }
  return count
}

const at = (iso: string | null) => Date.parse(iso ?? '')
