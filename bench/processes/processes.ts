import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

export type Environment = Readonly<Record<string, string>>

/** Running processes that the bench started. */
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

/** Words after `node`: options, a file, and its arguments. */
export type Program = readonly string[]

const root = new URL('../../', import.meta.url)

/** Returns the command of an npm script, with further arguments: users run the same, and npm itself is not measured. */
export async function npmScript(script: string, ...args: readonly string[]): Promise<Program> {
  const { scripts } = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as {
    scripts: Readonly<Record<string, string>>
  }
  const [node, ...words] = (scripts[script] ?? '').replace(/^exec /, '').split(' ')
  const at = words.findIndex(word => /\.[jt]s$/.test(word))
  if (node !== 'node' || at === -1)
    throw new Error(`npm script "${script}" does not run Node with a file: ${scripts[script]}`)
  return [...words.with(at, fileURLToPath(new URL(words[at] as string, root))), ...args]
}

export type Ended = {
  readonly stdout: string
  /** From the system clock, so that other processes can be compared. */
  readonly startedMs: number
  /** When it first wrote to stdout: a sync prints its report and goes on with the object store. */
  readonly printedMs: number
  readonly endedMs: number
}

/** The directory and the environment of a program. */
export type Around = {
  readonly directory: string
  /** All of its environment, except PATH: the caller's settings would change the results. */
  readonly env?: Environment
  readonly onStart?: (pid: number) => void
}

/**
 * Runs a program in its own Node process. The times are those of its start and exit.
 * @throws Error with its stderr, unless it exits with 0.
 */
export async function run(program: Program, { directory, env, onStart }: Around): Promise<Ended> {
  const startedMs = Date.now()
  const child = remember(
    spawn(process.execPath, program, {
      cwd: directory,
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
  if (child.pid) onStart?.(child.pid)
  const written = { stdout: '', stderr: '' }
  let printedMs = Number.NaN
  child.stdout.setEncoding('utf8').once('data', () => (printedMs = Date.now()))
  child.stdout.on('data', text => (written.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (written.stderr += text))
  const exited = once(child, 'exit').then(() => Date.now())
  await once(child, 'close')
  if (child.exitCode === 0) return { stdout: written.stdout, startedMs, printedMs, endedMs: await exited }
  const command = program.filter(word => !word.startsWith('--')).join(' ')
  throw new Error(`${command} exited with ${child.exitCode ?? child.signalCode}: ${written.stderr.trim()}`)
}

/** Runs a file whose only argument is an order in JSON, and returns what it prints: its answer in JSON. */
export async function answerOf<Answer>(file: string, order: object, directory: string): Promise<Answer> {
  return JSON.parse((await run([file, JSON.stringify(order)], { directory })).stdout)
}
