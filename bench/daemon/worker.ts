import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { RunReport } from '#src/store/run_report.ts'
import { commandOf } from '../command.ts'
import { beforeKillAll, remember } from '../processes.ts'
import { childrenOf, isRunning } from './proc.ts'

const ADMIN_TOKEN = 'adm_of_the_bench_only'
const LAST_LINES = 20
/** No run of the bench takes longer. */
const RUN_WITHIN_MS = 10 * 60_000
/** Logged by the worker if another process holds the company. */
const HELD = /^The company is held by /
/** Logged if a run of this worker ended because another worker had taken its company over. */
const TAKEN_OVER = /: another worker (took over|has sealed) /

/** A run's report, as in its last log line. */
export type Run = RunReport & { readonly company: string }

/** A worker as `npm start` starts it. */
export type Worker = {
  readonly pid: number
  readonly url: string
  /** Runs that have ended so far. */
  readonly runs: readonly Run[]
  /** How often a run found its company held. */
  readonly held: () => number
  /** How many runs ended because another worker had taken their company over. */
  readonly takenOver: () => number
  /** Messages of level error in its log and those of its runs. */
  readonly errors: readonly string[]
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
  /** Runs in progress at the signal, and those of them that outlived the worker. */
  readonly runs: number
  readonly leftBehind: number
}

/**
 * Starts a worker on a free port and resolves when it listens. It gets none of the caller's settings.
 * @param options.within a command that replaces itself with the command after it, on another host.
 * @throws Error with the end of its log if it ends instead.
 */
export async function startWorker(options: {
  directory: string
  env: Readonly<Record<string, string>>
  within?: readonly string[]
}): Promise<Worker> {
  const { directory, env, within = [] } = options
  const { nodeOptions, file, args } = await commandOf('start')
  const [program = '', ...words] = [...within, process.execPath, ...nodeOptions, file, ...args]
  const child = remember(
    spawn(program, words, {
      cwd: directory,
      env: { PATH: process.env.PATH ?? '', HTTP_PORT: '0', ADMIN_TOKEN, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    }),
  )
  const pid = child.pid as number
  const forget = beforeKillAll(async () => killRuns(pid))
  const exited = once(child, 'exit').then(() => performance.now())
  const log = collect(createInterface({ input: child.stderr }))
  const early = exited.then(() => {
    throw new Error(`The worker exited with ${child.exitCode ?? child.signalCode}:\n${log.last.join('\n')}`)
  })
  // A caller that waits for a run sees the rejection; after a requested end nothing handles it.
  early.catch(() => {})
  const url = await Promise.race([log.listening, early])
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' }
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${url}${path}`, { headers, ...init })
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
    return await response.text()
  }
  return {
    pid,
    url,
    runs: log.runs,
    errors: log.errors,
    held: () => log.held,
    takenOver: () => log.takenOver,
    next: () => soon(Promise.race([log.next(), early]), log),
    requestSync: async company => {
      await ask(`/companies/${company}/sync`, { method: 'POST', body: '{}' })
    },
    metrics: () => ask('/metrics'),
    async stop() {
      const runs = childrenOf(pid)
      const fromMs = performance.now()
      child.kill('SIGTERM')
      const seconds = ((await exited) - fromMs) / 1000
      forget()
      return { seconds, runs: runs.length, leftBehind: runs.filter(isRunning).length }
    },
    async kill() {
      killRuns(pid)
      child.kill('SIGKILL')
      await exited
      forget()
    },
  }
}

async function soon<T>(awaited: Promise<T>, { last }: { last: readonly string[] }): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error(`No run ended within ${RUN_WITHIN_MS / 1000} s:\n${last.join('\n')}`)),
    RUN_WITHIN_MS,
  )
  try {
    return await Promise.race([awaited, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Without their worker runs would end by themselves, but keep writing until then. */
function killRuns(pid: number): void {
  try {
    // So that it starts no other one meanwhile.
    process.kill(pid, 'SIGSTOP')
  } catch {
    // It has already ended.
  }
  for (const run of childrenOf(pid)) {
    try {
      process.kill(run, 'SIGKILL')
    } catch {
      // It has already ended.
    }
  }
}

type Line = Partial<Run> & { readonly msg?: string; readonly level?: string }

/** Follows the log of a worker, which includes those of its runs. */
function collect(lines: AsyncIterable<string> & NodeJS.EventEmitter) {
  const { promise: listening, resolve: listens } = Promise.withResolvers<string>()
  let waiting = Promise.withResolvers<Run>()
  const found = { runs: [] as Run[], errors: [] as string[], last: [] as string[], held: 0, takenOver: 0 }
  const log = { ...found, listening, next: () => waiting.promise }
  lines.on('line', (text: string) => {
    log.last.push(text)
    if (log.last.length > LAST_LINES) log.last.shift()
    const line = parse(text)
    const url = /^Listening on (http:\S+?);/.exec(line.msg ?? '')?.[1]
    if (url) listens(url)
    if (HELD.test(line.msg ?? '')) log.held += 1
    if (TAKEN_OVER.test(line.msg ?? '')) log.takenOver += 1
    if (line.level === 'error') log.errors.push(line.msg ?? text)
    if (line.msg !== 'run finished') return
    log.runs.push(line as Run)
    waiting.resolve(line as Run)
    waiting = Promise.withResolvers()
  })
  return log
}

function parse(text: string): Line {
  try {
    return JSON.parse(text) as Line
  } catch {
    return {}
  }
}
