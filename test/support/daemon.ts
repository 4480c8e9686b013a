import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { childrenOf, isRunning, signal } from '#tools/proc.ts'
import { type LogLine, startServiceProcess } from '#tools/service_process.ts'
import { type Environment, surroundings, temporaryDirectory } from './project.ts'

const MAIN = join(import.meta.dirname, '../../jobs/main.ts')
/** Events that take longer count as missing; most take a second or two. */
const WITHIN_MS = 50_000
/** Longer than a daemon's own limit for stopping. */
const STOP_WITHIN_MS = 65_000
/** The daemon answers even while Redis is down. */
const ANSWER_WITHIN_MS = 20_000
const POLL_MS = { first: 5, most: 100 }

/** For tests of daemons: they wait for several events, and machines may be slow. */
export const DAEMON_TEST = { testTimeout: 150_000 }

export const ADMIN_TOKEN = 'adm_2b8e6f0d1c7a4953'

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
  runs(): number[]
}

type WaitOptions = { readonly after?: number; readonly withinMs?: number }

/**
 * Starts a worker on a free port, in a directory without a `.env`, and waits until it listens. `command` starts it in
 * another way. The worker and its children are killed when the test ends.
 * @throws Error with the end of its log if it ends instead.
 */
export async function startDaemon(
  environment: Environment,
  { env = {}, command = [process.execPath, MAIN] }: { env?: Environment; command?: readonly string[] } = {},
): Promise<Daemon> {
  const lines: LogLine[] = []
  const daemon = await startServiceProcess({
    name: 'the daemon',
    command,
    directory: await temporaryDirectory(),
    env: {
      ...surroundings(),
      ...environment,
      LOG_LEVEL: 'info',
      HTTP_PORT: '0',
      ADMIN_TOKEN,
      ...env,
    },
    onStart: endWithTest,
    onLine: line => void lines.push(line),
  })
  const { pid, url } = daemon
  const waitFor: Daemon['waitFor'] = async (fits, { after = 0, withinMs = WITHIN_MS } = {}) => {
    const line = () => lines.slice(after).find(fits)
    return await until(line, { withinMs, what: () => `a log line among\n${tail(lines)}` })
  }
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
      const ended = daemon.end('SIGTERM')
      await until(() => !isRunning(pid), {
        what: () => `the end of the daemon after SIGTERM; its log ends with\n${tail(lines)}`,
        withinMs: STOP_WITHIN_MS,
      })
      return (await ended).code
    },
    async kill() {
      await daemon.end('SIGKILL')
    },
    runs: () => childrenOf(pid),
  }
}

/** Kills it and its children when the test ends. */
function endWithTest(child: ChildProcess): void {
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    const started = childrenOf(child.pid as number)
    child.kill('SIGKILL')
    await exited
    await Promise.all(started.map(killProcess))
  })
}

/** The end of a daemon's log, for the message of a test that waited in vain. */
export function tail(lines: readonly LogLine[]): string {
  return lines
    .slice(-20)
    .map(line => JSON.stringify(line).slice(0, 300))
    .join('\n')
}

/** SIGKILL; resolves when it has ended. */
export async function killProcess(pid: number): Promise<void> {
  signal(pid, 'SIGKILL')
  await until(() => !isRunning(pid), { what: `the end of process ${pid}` })
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
  for (let pauseMs = POLL_MS.first; ; pauseMs = Math.min(2 * pauseMs, POLL_MS.most)) {
    const seen = await look()
    if (seen !== undefined && seen !== null && seen !== false) {
      return seen as Exclude<T, undefined | null | false>
    }
    if (Date.now() > deadlineMs) {
      throw new Error(`waited ${withinMs / 1000} s in vain for ${typeof what === 'string' ? what : what()}`)
    }
    await sleep(pauseMs)
  }
}
