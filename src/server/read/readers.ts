import type { ChildProcess } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import { startChild } from '#src/lib/child.ts'
import { FatalError, findSystemCode } from '#src/lib/errors.ts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import {
  OWN_DIRECTORY,
  type PlacedOrder,
  type ReadAnswer,
  type ReadMessage,
  type ReadOrder,
  WITHIN_MS,
} from './order.ts'

const READER = join(import.meta.dirname, 'reader_process.js')

/** DuckDB's own memory has its own limit. */
const MAX_HEAP_MB = 256
/** Its output belongs to no log: a client's SQL could fill it. */
const READER_OPTIONS = { execArgv: [`--max-old-space-size=${MAX_HEAP_MB}`], stderr: 'ignore' } as const
/** Each can use two cores and hundreds of megabytes. */
const AT_ONCE = 2
/** Of all that is read in this process, by agents and for pages. */
const inTurn = createTurns(AT_ONCE)
/** Orders of one key that may run or wait. */
const MAX_PENDING = 8
/** To start the process and open the snapshot: half a second of work, which yields to all other work of a busy machine. */
const OPEN_WITHIN_MS = 60_000

/** The key that sends the orders. */
type Key = { readonly prefix: string; readonly isStillValid: () => boolean }

/**
 * Reads snapshots, each order in a process of its own: two at once, the keys in turn. A process is killed when its time
 * is up, when it uses too much memory, or when the client is gone.
 */
export class Readers {
  readonly #pending = new Map<string, number>()
  readonly #log: Logger

  constructor(log: Logger) {
    this.#log = log
    removeLeftovers()
  }

  /**
   * Answers a query of the key's client.
   * @throws FatalError with a sentence for the client, also if the key has too many calls under way, or is no longer valid when
   * it is their turn, or when they are answered.
   */
  async read({ prefix, isStillValid }: Key, order: ReadOrder, signal: AbortSignal): Promise<ReadAnswer> {
    const pending = this.#pending.get(prefix) ?? 0
    if (pending >= MAX_PENDING)
      throw new FatalError(
        `This key has ${pending} calls that run or wait, the maximum. Try again in a few seconds.`,
      )
    this.#pending.set(prefix, pending + 1)
    try {
      const answer = await inTurn(
        prefix,
        () => !signal.aborted && isStillValid(),
        () => this.#carryOut(order, signal),
      )
      if (!signal.aborted && !isStillValid())
        throw new FatalError('The API key was revoked or has expired while the call waited or ran.')
      if (answer === null) throw new FatalError('Cancelled.')
      return answer
    } finally {
      const left = (this.#pending.get(prefix) as number) - 1
      if (left === 0) this.#pending.delete(prefix)
      else this.#pending.set(prefix, left)
    }
  }

  async #carryOut(order: ReadOrder, signal: AbortSignal): Promise<ReadAnswer> {
    const temporary = await mkdtemp(join(tmpdir(), ownPrefix()))
    try {
      const message = await ask({ ...order, lake: resolve(order.lake), temporary }, signal)
      if (message.kind === 'answer') return message.answer
      throw this.#problem(message)
    } finally {
      // With what it spilled.
      await rm(temporary, { recursive: true, force: true })
    }
  }

  #problem(message: Exclude<Ended, { kind: 'answer' }>): FatalError {
    if (message.kind === 'refused') return new FatalError(message.why)
    if (message.kind === 'too_large')
      return new FatalError('The query needs too much memory. Read fewer columns or rows.')
    if (message.kind === 'late') return late(message)
    this.#log.error(`A reading of the snapshot failed: ${message.why}.`)
    return new FatalError(
      'The snapshot cannot be read that way. The log of the server has the reason; if it was your SQL, simplify it.',
    )
  }
}

type Late = { readonly kind: 'late'; readonly phase: 'opening' | 'reading'; readonly afterMs: number }
type Ended = Exclude<ReadMessage, { kind: 'opened' }> | Late

function late({ phase, afterMs }: Late): FatalError {
  const seconds = afterMs / 1000
  return new FatalError(
    phase === 'opening'
      ? `The snapshot could not be opened within ${seconds} seconds. Try again later.`
      : `The query took longer than ${seconds} seconds and was stopped. Read fewer rows, or filter more.`,
  )
}

/** Resolves when the process has ended: only then is its memory free. */
async function ask(order: PlacedOrder, signal: AbortSignal): Promise<Ended> {
  // In its own directory, where the system writes a dump if it crashes.
  const reader = startChild(READER, { ...READER_OPTIONS, cwd: order.temporary })
  yieldToOthers(reader)
  const stop = () => void reader.kill('SIGKILL')
  let ended: Ended | null = null
  const stopAfter = (afterMs: number, phase: Late['phase']) =>
    setTimeout(() => {
      ended ??= { kind: 'late', phase, afterMs }
      stop()
    }, afterMs)
  let timer = stopAfter(OPEN_WITHIN_MS, 'opening')
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  reader.on('message', (message: ReadMessage) => {
    clearTimeout(timer)
    if (message.kind === 'opened') {
      timer = stopAfter(WITHIN_MS[order.isForeign ? 'foreign' : 'ours'], 'reading')
    } else {
      ended ??= message
      stop()
    }
  })
  reader.send(order, () => {})
  const why = await whyEnded(reader)
  clearTimeout(timer)
  signal.removeEventListener('abort', stop)
  if (signal.aborted) return { kind: 'refused', why: 'Cancelled.' }
  return ended ?? { kind: 'failed', why }
}

const NICE = 10

/** Runs and requests come before queries. */
function yieldToOthers({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) setPriority(pid, NICE)
  } catch {
    // It has ended already, or the system does not allow it.
  }
}

/** Removes what calls spilled if their server was killed together with them. */
function removeLeftovers(): void {
  for (const name of readdirSync(tmpdir())) {
    const [, pid, started] = OF_SERVER.exec(name) ?? []
    // In a container, a server has the number of the one before it.
    const isOurs = Number(pid) === process.pid && Number(started) === STARTED
    const isOthers = Number(pid) !== process.pid && isRunning(Number(pid))
    if (pid === undefined || isOurs || isOthers) continue
    try {
      rmSync(join(tmpdir(), name), { recursive: true, force: true })
    } catch {
      // Another user's.
    }
  }
}

/** When this process began. */
const STARTED = Math.floor(performance.timeOrigin)

/** Returns how the names of this process's temporary directories begin: one that it leaves is removed by a later process. */
export function ownPrefix(): string {
  return `${OWN_DIRECTORY}${process.pid}-${STARTED}-`
}

const OF_SERVER = new RegExp(`^${OWN_DIRECTORY}(\\d+)-(\\d+)-`)

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return findSystemCode(error) !== 'ESRCH'
  }
}

/** Resolves when the process has ended and all its messages have arrived. */
async function whyEnded(reader: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  reader.once('error', error => resolve(`no process can be started: ${error.message}`))
  reader.once('exit', (code, killed) => {
    const why = `the process ended early (${code ?? killed})`
    if (reader.connected) reader.once('disconnect', () => resolve(why))
    else resolve(why)
  })
  return await promise
}
