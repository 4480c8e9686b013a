import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Asked, Counters, Mark, Said, ServerOptions } from './server.ts'
import type { About } from './world.ts'

/** Every process that the bench started and that has not ended. */
const alive = new Set<ChildProcess>()
/** Ends what those processes started. */
const enders = new Set<() => Promise<void>>()

/** Ends them all, and resolves when they have ended. What they were writing is not wanted. */
export async function killAll(): Promise<void> {
  await Promise.all([...enders].map(end => end()))
  const ended = [...alive].map(child => once(child, 'exit'))
  for (const child of alive) child.kill('SIGKILL')
  await Promise.all(ended)
}

/** What is to be done first when all is ended early; the call that it returns takes that back. */
export function beforeKillAll(end: () => Promise<void>): () => void {
  enders.add(end)
  return () => void enders.delete(end)
}

export function remember<C extends ChildProcess>(child: C): C {
  alive.add(child)
  child.once('exit', () => alive.delete(child))
  return child
}

export type Ended = {
  readonly stdout: string
  /** By the system's clock, to compare with other processes. */
  readonly startedMs: number
  readonly endedMs: number
}

/**
 * Runs a TypeScript file in a Node process of its own. The times are of its start and its exit.
 * @param nodeOptions options of Node itself.
 * @throws Error with what it wrote to stderr, unless it exits with 0.
 */
export async function run(
  file: string,
  args: readonly string[],
  about: { cwd: string; env?: Record<string, string>; nodeOptions?: readonly string[] },
): Promise<Ended> {
  const startedMs = Date.now()
  const child = remember(
    spawn(process.execPath, [...(about.nodeOptions ?? []), file, ...args], {
      cwd: about.cwd,
      // Nothing of the caller's settings: they would change what is measured.
      env: { PATH: process.env.PATH ?? '', ...about.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
  const written = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', text => (written.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (written.stderr += text))
  const exited = once(child, 'exit').then(() => Date.now())
  await once(child, 'close')
  if (child.exitCode === 0) return { stdout: written.stdout, startedMs, endedMs: await exited }
  throw new Error(`${file} ended with ${child.exitCode ?? child.signalCode}: ${written.stderr.trim()}`)
}

/** The companies' API, in a process of its own. */
export type Server = {
  readonly url: string
  /** Of each company, in their order. */
  readonly about: readonly About[]
  /** What was asked of it since the last call. */
  counters(): Promise<Counters>
  /** Changes this share of each company's notices; resolves to how many. */
  change(share: number): Promise<number>
  /** Resolves when so much was asked of it; until then nothing else can be wanted of it. */
  reached(mark: Mark): Promise<void>
  close(): Promise<void>
}

/** Generates the companies in the new process, and resolves once it answers. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const file = fileURLToPath(new URL('server.ts', import.meta.url))
  const child = remember(fork(file, [JSON.stringify(options)]))
  const ended = once(child, 'exit')
  const failed = ended.then(([code]) => Promise.reject(new Error(`the API's process ended (${code})`)))
  // Met by whoever waits for an answer; an end that was asked for is met by nobody.
  failed.catch(() => {})

  async function next<K extends Said['kind']>(kind: K): Promise<Extract<Said, { kind: K }>> {
    const said = await Promise.race([once(child, 'message').then(([message]) => message as Said), failed])
    if (said.kind !== kind) throw new Error(`the API's process said ${said.kind} instead of ${kind}`)
    return said as Extract<Said, { kind: K }>
  }
  const ask = (asked: Asked) => child.send(asked)
  const { port, about } = await next('ready')
  return {
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
      ask({ kind: 'tell', mark })
      await next('reached')
    },
    async close() {
      child.disconnect()
      await ended
    },
  }
}
