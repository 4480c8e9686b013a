import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Asked, Counters, Mark, Said, ServerOptions } from './server.ts'
import type { About } from './world.ts'

/** Running processes that the benchmark started. */
const alive = new Set<ChildProcess>()
/** End the processes that those started. */
const enders = new Set<() => Promise<void>>()
/** An interrupted measurement may start its next process before it notices. */
let isOver = false

/** Kills them all and resolves when they have ended. Their output is discarded. */
export async function killAll(): Promise<void> {
  isOver = true
  await Promise.all([...enders].map(end => end()))
  const ended = [...alive].map(child => once(child, 'exit'))
  for (const child of alive) child.kill('SIGKILL')
  await Promise.all(ended)
}

/** Registers a step to run before an early end; the returned function removes it. */
export function beforeKillAll(end: () => Promise<void>): () => void {
  enders.add(end)
  return () => void enders.delete(end)
}

export function remember<C extends ChildProcess>(child: C): C {
  alive.add(child)
  // Otherwise it would outlive the bench, and create its directory again.
  if (isOver) child.kill('SIGKILL')
  child.once('exit', () => alive.delete(child))
  return child
}

export type Ended = {
  readonly stdout: string
  /** From the system clock, so that other processes can be compared. */
  readonly startedMs: number
  /** When it first wrote to stdout: a sync prints its report and goes on with the object store. */
  readonly printedMs: number
  readonly endedMs: number
}

/**
 * Runs a TypeScript file in its own Node process. The times are those of its start and exit.
 * @param nodeOptions options for Node itself.
 * @throws Error with its stderr, unless it exits with 0.
 */
export async function run(
  file: string,
  args: readonly string[],
  about: {
    cwd: string
    env?: Record<string, string>
    nodeOptions?: readonly string[]
    onStart?: (pid: number) => void
  },
): Promise<Ended> {
  const startedMs = Date.now()
  const child = remember(
    spawn(process.execPath, [...(about.nodeOptions ?? []), file, ...args], {
      cwd: about.cwd,
      // Without the caller's settings, which would change the results.
      env: { PATH: process.env.PATH ?? '', ...about.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
  if (child.pid) about.onStart?.(child.pid)
  const written = { stdout: '', stderr: '' }
  let printedMs = Number.NaN
  child.stdout.setEncoding('utf8').once('data', () => (printedMs = Date.now()))
  child.stdout.on('data', text => (written.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (written.stderr += text))
  const exited = once(child, 'exit').then(() => Date.now())
  await once(child, 'close')
  if (child.exitCode === 0) return { stdout: written.stdout, startedMs, printedMs, endedMs: await exited }
  throw new Error(`${file} exited with ${child.exitCode ?? child.signalCode}: ${written.stderr.trim()}`)
}

/** The companies' API, in its own process. */
export type Server = {
  readonly pid: number
  readonly url: string
  /** One per company, in order. */
  readonly about: readonly About[]
  /** Requests since the last call. */
  counters(): Promise<Counters>
  /** Changes this share of each company's notices; resolves to their number. */
  change(share: number): Promise<number>
  /** Resolves when the mark is reached; until then no other call is possible. */
  reached(mark: Mark): Promise<void>
  close(): Promise<void>
}

/** Generates the companies in the new process, and resolves once it answers. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const file = fileURLToPath(new URL('server.ts', import.meta.url))
  const child = remember(fork(file, [JSON.stringify(options)]))
  const ended = once(child, 'exit')
  const failed = ended.then(([code]) => Promise.reject(new Error(`the API process exited with ${code}`)))
  // A caller that waits for an answer sees the rejection; after a requested end nothing handles it.
  failed.catch(() => {})

  async function next<K extends Said['kind']>(kind: K): Promise<Extract<Said, { kind: K }>> {
    const message = await Promise.race([once(child, 'message').then(([sent]) => sent as Said), failed])
    if (message.kind !== kind) throw new Error(`the API process sent ${message.kind} instead of ${kind}`)
    return message as Extract<Said, { kind: K }>
  }
  const ask = (asked: Asked) => child.send(asked)
  const { port, about } = await next('ready')
  return {
    pid: child.pid as number,
    url: `http://127.0.0.1:${port}`,
    about,
    async counters() {
      ask({ kind: 'counters' })
      return (await next('counters')).counters
    },
    async change(share) {
      ask({ kind: 'change', share })
      return (await next('changed')).count
    },
    async reached(mark) {
      ask({ kind: 'notify', mark })
      await next('reached')
    },
    async close() {
      child.disconnect()
      await ended
    },
  }
}
