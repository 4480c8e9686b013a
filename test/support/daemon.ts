import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { type Environment, surroundings, temporaryDirectory } from './project.ts'

const MAIN = join(import.meta.dirname, '../../jobs/main.ts')
/** Events that take longer count as missing; most take a second or two. */
const WITHIN_MS = 50_000
/** Longer than a daemon's own limit for stopping. */
const STOP_WITHIN_MS = 65_000
/** The daemon answers even while Redis is down. */
const ANSWER_WITHIN_MS = 20_000
const POLL_MS = 100

/** For tests of daemons: they wait for several events, and machines may be slow. */
export const DAEMON_TEST = { testTimeout: 150_000 }

export const ADMIN_TOKEN = 'adm_2b8e6f0d1c7a4953'

/** A line of the log; a line that is not JSON is in `msg`. */
export type LogLine = Readonly<Record<string, unknown>> & {
  readonly msg: string
  readonly level?: string
  readonly company?: string
}

/** A worker, started as by `npm start`. */
export type Daemon = {
  readonly pid: number
  /** The address that it listens on. */
  readonly url: string
  /** The log lines of the worker and its runs so far. */
  readonly lines: readonly LogLine[]
  /** The first matching line after the first `after` lines; it may exist already. */
  waitFor(fits: (line: LogLine) => boolean, options?: WaitOptions): Promise<LogLine>
  /** Sends it an HTTP request with the admin token. */
  ask(path: string, init?: RequestInit): Promise<Response>
  /** SIGTERM; resolves with its exit code. */
  stop(): Promise<number | null>
  /** SIGKILL to this process alone; resolves when it has ended. */
  kill(): Promise<void>
  /** Processes of the runs in progress. */
  runs(): Promise<number[]>
}

type WaitOptions = { readonly after?: number; readonly withinMs?: number }

/**
 * Starts a worker on a free port, in a directory without a `.env`, and waits until it listens. `main` starts
 * another version. The worker and its children are killed when the test ends.
 * @throws Error with the end of its log if it ends instead.
 */
export async function startDaemon(
  environment: Environment,
  { env = {}, main = MAIN }: { env?: Environment; main?: string } = {},
): Promise<Daemon> {
  const child = spawn(process.execPath, [main], {
    cwd: await temporaryDirectory(),
    env: {
      ...surroundings(),
      ...environment,
      LOG_LEVEL: 'info',
      HTTP_PORT: '0',
      ADMIN_TOKEN,
      ...env,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const pid = child.pid as number
  const exited = once(child, 'exit').then(([code]) => code as number | null)
  onTestFinished(async () => {
    const started = await childrenOf(pid)
    child.kill('SIGKILL')
    await exited
    await Promise.all(started.map(killProcess))
  })
  const lines = collectLines(child)
  const waitFor: Daemon['waitFor'] = async (fits, { after = 0, withinMs = WITHIN_MS } = {}) => {
    const line = () => lines.slice(after).find(fits)
    return await until(line, { withinMs, what: () => `a log line among\n${tail(lines)}` })
  }
  const listening = waitFor(({ msg }) => msg.startsWith('Listening on http'))
  const early = exited.then(code => {
    throw new Error(`the daemon exited with ${code}:\n${tail(lines)}`)
  })
  const url = /http:\S+?(?=;)/.exec((await Promise.race([listening, early])).msg)?.[0] ?? ''
  early.catch(() => {})
  return {
    pid,
    url,
    lines,
    waitFor,
    ask: (path, init = {}) =>
      fetch(`${url}${path}`, {
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
        ...init,
        headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...init.headers },
      }),
    async stop() {
      child.kill('SIGTERM')
      await until(() => child.exitCode !== null || child.signalCode !== null, {
        what: () => `the end of the daemon after SIGTERM; its log ends with\n${tail(lines)}`,
        withinMs: STOP_WITHIN_MS,
      })
      return await exited
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    runs: () => childrenOf(pid),
  }
}

function collectLines(child: ChildProcess): LogLine[] {
  const lines: LogLine[] = []
  if (child.stderr) createInterface({ input: child.stderr }).on('line', text => lines.push(parse(text)))
  return lines
}

function parse(text: string): LogLine {
  try {
    return { msg: '', ...JSON.parse(text) }
  } catch {
    return { msg: text }
  }
}

/** The end of a daemon's log, for the message of a test that waited in vain. */
export function tail(lines: readonly LogLine[]): string {
  return lines
    .slice(-20)
    .map(line => JSON.stringify(line).slice(0, 300))
    .join('\n')
}

/** Processes that a process started and that still run. */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
  return text.split(' ').filter(Boolean).map(Number)
}

/** SIGKILL; resolves when it has ended. */
export async function killProcess(pid: number): Promise<void> {
  signal(pid, 'SIGKILL')
  await until(async () => !(await isRunning(pid)), { what: `the end of process ${pid}` })
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has already ended.
  }
}

/** A zombie does not count as running. */
async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return stat !== '' && !/^\d+ \(.*\) [ZX]/.test(stat)
}

/**
 * Waits until `look` returns anything but undefined, null or false.
 * @throws Error that names `what`, after `withinMs`.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  { what, withinMs = WITHIN_MS }: { what: string | (() => string); withinMs?: number },
): Promise<Exclude<T, undefined | null | false>> {
  const deadlineMs = Date.now() + withinMs
  for (;;) {
    const seen = await look()
    if (seen !== undefined && seen !== null && seen !== false) {
      return seen as Exclude<T, undefined | null | false>
    }
    if (Date.now() > deadlineMs) {
      throw new Error(`waited ${withinMs / 1000} s in vain for ${typeof what === 'string' ? what : what()}`)
    }
    await sleep(POLL_MS)
  }
}
