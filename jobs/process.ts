import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { join } from 'node:path'
import { DAEMON_SETTINGS } from '#config/daemon.ts'
import { FatalError } from '#src/errors.ts'
import type { Progress } from '#src/run.ts'
import type { AnswerSeen, Ended, Message, Order } from './child.ts'
import type { Company } from './roster.ts'

const CHILD = join(import.meta.dirname, 'child.ts')
/** A run that was told to stop has sealed, loaded and published well within this; the grace period is 60 s. */
const STOP_WITHIN_MS = 50_000

export type ProcessOptions = {
  readonly company: Company
  readonly order: Order
  /** Aborted to let it end early. */
  readonly signal: AbortSignal
  readonly onBegun?: () => void
  readonly onNews?: (news: { progress: Progress | null; answers: readonly AnswerSeen[] }) => void
}

/**
 * Carries an order out in a process of its own, whose environment is the company's alone.
 * @throws FatalError when the process died without a word.
 */
export async function inProcess(options: ProcessOptions): Promise<Ended> {
  const { company, order, signal } = options
  const child = fork(CHILD, [], { env: environmentFor(company), serialization: 'advanced', execArgv: [] })
  let ended: Ended | null = null
  let killer: NodeJS.Timeout | undefined
  const stop = () => {
    child.kill('SIGTERM')
    killer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS)
  }
  child.on('message', (message: Message) => {
    // Told only once it listens: a signal before that would end it without a report.
    if (message.type === 'ready') {
      child.send(order, () => {})
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    } else if (message.type === 'begun') options.onBegun?.()
    else if (message.type === 'news') options.onNews?.(message)
    else ended = message.ended
  })
  try {
    const how = await exited(child)
    return ended ?? died(company, how)
  } finally {
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

function died(company: Company, how: string): never {
  const memory =
    how === 'SIGKILL' ? ' Was it killed for its memory? Fewer at a time need less: WORKER_CONCURRENCY.' : ''
  throw new FatalError(
    `${company.slug}: the process of the run died (${how}). What it made durable stays, and the next run goes on from there.${memory}`,
  )
}

/** The worker's own secrets are none of a run's business. */
function environmentFor({ environment }: Company): NodeJS.ProcessEnv {
  const own = Object.entries(environment).filter(([name]) => !DAEMON_SETTINGS.includes(name))
  return { ...Object.fromEntries(own), NODE_COMPILE_CACHE: getCompileCacheDir() }
}
