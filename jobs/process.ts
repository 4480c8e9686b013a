import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { join } from 'node:path'
import { COMPANY_SETTINGS, KEY_SETTINGS } from '#config/settings.ts'
import { EXIT } from '#src/errors.ts'
import type { Progress } from '#src/run.ts'
import type { AnswerSeen, Ended, Message, Order } from './child.ts'
import type { Company } from './roster.ts'
import type { Slot } from './slots.ts'

const CHILD = join(import.meta.dirname, 'child.ts')
/** A run that was told to stop has sealed, loaded and published well within this; the grace period is 60 s. */
const STOP_WITHIN_MS = 50_000
const END_WITHIN_MS = 10_000
/** Of the system and the runtime, not of this project. */
const OWN_VARIABLES =
  /^(PATH|HOME|USER|LANG|LC_.+|TZ|TMPDIR|TERM|COLORTERM|(NO|FORCE)_COLOR|NODE_.+|SSL_CERT_.+)$/

export type ProcessOptions = {
  readonly company: Company
  readonly order: Order
  /** Aborted to let it end early. */
  readonly signal: AbortSignal
  /** Of a run: gets the process's id, and is free again when that has ended. */
  readonly slot?: Slot
  readonly onBegun?: () => void
  readonly onNews?: (news: { progress: Progress | null; answers: readonly AnswerSeen[] }) => void
}

/**
 * Carries an order out in a process of its own, whose environment is the company's alone.
 * One that dies without a word has failed.
 */
export async function inProcess(options: ProcessOptions): Promise<Ended> {
  const { company, order, signal } = options
  const child = fork(CHILD, [], {
    env: environmentFor(company),
    serialization: 'advanced',
    execArgv: [],
    // Out of reach of a terminal's Ctrl-C, which comes before it listens: this process tells it to stop.
    detached: true,
  })
  if (options.slot) options.slot.pid = child.pid ?? null
  let ended: Ended | null = null
  let killer: NodeJS.Timeout | undefined
  const stop = () => {
    child.kill('SIGTERM')
    killer ??= setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS)
  }
  child.on('message', (message: Message) => {
    // Told only once it listens: a signal before that would end it without a report.
    if (message.type === 'ready') {
      child.send(order, () => {})
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    } else if (message.type === 'begun') options.onBegun?.()
    else if (message.type === 'news') options.onNews?.(message)
    else {
      ended = message.ended
      // It has nothing left to do; one that does not end all the same would keep the slot for ever.
      killer ??= setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS)
    }
  })
  try {
    const how = await exited(child)
    return ended ?? died(company, how)
  } finally {
    // Not only when its job ends, which may wait for a Redis that is away: a worker that stops waits for runs alone.
    options.slot?.release()
    clearTimeout(killer)
    signal.removeEventListener('abort', stop)
  }
}

function exited(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    // Not 'exit': the last messages may still be on their way then.
    child.on('close', (code, signal) => resolve(signal ?? `exit code ${code}`))
  })
}

function died({ slug }: Company, how: string): Ended {
  const memory =
    how === 'SIGKILL' ? ' Was it killed for its memory? Fewer at a time need less: WORKER_CONCURRENCY.' : ''
  const message = `${slug}: the process of the run died (${how}). What it made durable stays, and the next run goes on from there.${memory}`
  return { kind: 'failed', message, exitCode: EXIT.failed, cause: null }
}

/** The company's settings, its key, and what any program needs: no secret of the worker or of another company. */
function environmentFor({ environment }: Company): NodeJS.ProcessEnv {
  const own = Object.entries(environment).filter(([name]) => OWN_VARIABLES.test(name) || isOfCompany(name))
  return { ...Object.fromEntries(own), NODE_COMPILE_CACHE: getCompileCacheDir() }
}

function isOfCompany(name: string): boolean {
  return COMPANY_SETTINGS.includes(name) || KEY_SETTINGS.includes(name)
}
