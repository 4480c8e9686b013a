import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { COMPANY_SETTINGS, KEY_SETTINGS } from '#config/settings.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import { EXIT, findSystemCode } from '#src/lib/errors.ts'
import type { Company } from './queues/company_registry.ts'
import type { AnswerSeen, Ended, RunMessage, RunOrder } from './queues/queue.ts'
import type { Slot } from './queues/slots.ts'

const CHILD = join(import.meta.dirname, 'child.ts')
/** Ample time for a stopping run to seal, load and publish; the grace period is 60 s. */
const STOP_WITHIN_MS = 50_000
const END_WITHIN_MS = 10_000
/** Usually it is ready within a second; on an overloaded machine it may take many. */
const READY_WITHIN_MS = 60_000
/** The system's error codes if it has no room for another process. */
const OF_LIMITS: readonly string[] = ['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM']
/** Variables of the system, the runtime, and of the SDKs of AWS and OpenTelemetry, not of this project. */
const OWN_VARIABLES =
  /^(PATH|HOME|USER|LANG|LC_.+|TZ|TMPDIR|TERM|COLORTERM|(NO|FORCE)_COLOR|NODE_.+|SSL_CERT_.+|AWS_.+|OTEL_.+)$/

type ProcessOptions = {
  readonly company: Company
  readonly order: RunOrder
  /** Aborted to end it early. */
  readonly signal: AbortSignal
  /** The slot of a run: gets the process id, and is released when the process has ended. */
  readonly slot?: Slot
  readonly onBegun?: () => void
  readonly onNews?: (news: { progress: Progress | null; answers: readonly AnswerSeen[] }) => void
}

/**
 * Carries out an order in its own process, whose environment holds only this company's settings and secrets. A process
 * that cannot be started, never gets ready or dies without a report counts as failed.
 * @param start creates the process.
 */
export async function runInProcess(options: ProcessOptions, start: typeof fork = fork): Promise<Ended> {
  const { company, slot } = options
  try {
    const child = start(CHILD, [], {
      env: environmentFor(company),
      serialization: 'advanced',
      // As `editais sync` has it: see src/cli/main.js.
      execArgv: ['--min-semi-space-size=16'],
      // Out of reach of a terminal's Ctrl-C, which may come before it listens: this process stops it.
      detached: true,
    })
    if (slot) slot.pid = child.pid ?? null
    return await awaitEnd(child, options)
  } catch (error) {
    const code = findSystemCode(error)
    if (code === undefined) throw error
    return { ...FAILED, message: notStarted(options, code) }
  } finally {
    // Now, not when the job ends: that may wait for a Redis that is away, and a stopping worker waits only for runs.
    slot?.release()
  }
}

async function awaitEnd(child: ChildProcess, options: ProcessOptions): Promise<Ended> {
  const { order, signal, ...on } = options
  let ended: Ended | null = null
  let isReady = false
  const kill = () => child.kill('SIGKILL')
  let killer = setTimeout(kill, READY_WITHIN_MS)
  const killWithin = (ms: number) => {
    clearTimeout(killer)
    killer = setTimeout(kill, ms)
  }
  const stop = () => {
    if (ended !== null) return
    // Before it listens, the signal would kill it without a report.
    if (isReady) child.kill('SIGTERM')
    killWithin(isReady ? STOP_WITHIN_MS : END_WITHIN_MS)
  }
  child.on('message', (message: RunMessage) => {
    if (message.type === 'ready') {
      isReady = true
      clearTimeout(killer)
      child.send(order, () => {})
      if (signal.aborted) stop()
    } else if (message.type === 'begun') on.onBegun?.()
    else if (message.type === 'news') on.onNews?.(message)
    else {
      ended = message.ended
      // It has nothing left to do. If it did not end, it would keep the slot forever.
      killWithin(END_WITHIN_MS)
    }
  })
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  try {
    const how = await exited(child)
    if (ended !== null) return ended
    return !isReady && child.killed ? neverReady(options, signal) : died(options, how)
  } finally {
    clearTimeout(killer)
    signal.removeEventListener('abort', stop)
  }
}

type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

/** Waits until the child has ended. @throws the error that prevented the start. */
function exited(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve, reject) => {
    child.on('error', error => {
      // If it has started, only a message or a signal failed, and it still ends.
      if (child.pid === undefined) reject(error)
    })
    // Not 'exit': the last messages may still be on their way then.
    child.on('close', (code, signal) => resolve({ code, signal }))
  })
}

const FAILED = { kind: 'failed', exitCode: EXIT.failed, cause: null } as const

/** The purpose of a process, and what its death means. */
const PURPOSES: Readonly<Record<RunOrder['kind'], readonly [purpose: string, loss: string]>> = {
  sync: ['run', 'What it stored is kept; the next run continues from there.'],
  publish: ['publish to the object store', 'The local lake is right; the next publish does the rest.'],
  maintain: ['maintenance', 'No data is lost; the next maintenance does the rest.'],
  catch_up: ['catching up with other hosts', 'No data is lost; it is tried again.'],
  status: ['status', 'It only read data; request the status again.'],
  report: ['report', 'It only read data; request the report again.'],
  mail: ['mail', 'The report may have been sent or not; the next one comes as scheduled.'],
}

type Subject = Pick<ProcessOptions, 'company' | 'order'>

function nameProcess({ order }: Subject): string {
  return `the process of the ${PURPOSES[order.kind][0]}`
}

function notStarted(subject: Subject, code: string): string {
  const what = `${subject.company.slug}: cannot start ${nameProcess(subject)} (${code}).`
  if (OF_LIMITS.includes(code)) {
    return `${what} Raise the limits of the worker (pids_limit, open files, memory), or lower WORKER_CONCURRENCY.`
  }
  return `${what} Check that ${process.execPath} exists and is executable, then restart the worker.`
}

/**
 * Makes the result for a process that did not get ready in time. If it was aborted, nothing is lost and it can begin again, so it
 * counts as interrupted.
 */
function neverReady(subject: Subject, { aborted }: AbortSignal): Ended {
  const message = `${subject.company.slug}: ${nameProcess(subject)} did not get ready in time and was killed. Check whether the machine is overloaded or its disk hangs.`
  return { ...FAILED, message, exitCode: aborted ? EXIT.interrupted : EXIT.failed }
}

function died(subject: Subject, { code, signal }: Exit): Ended {
  const memory =
    signal === 'SIGKILL'
      ? ' It may have run out of memory; fewer concurrent runs (WORKER_CONCURRENCY) need less.'
      : ''
  const [, loss] = PURPOSES[subject.order.kind]
  const message = `${subject.company.slug}: ${nameProcess(subject)} died (${signal ?? `exit code ${code}`}). ${loss}${memory}`
  return { ...FAILED, message, cause: signal === null ? null : 'killed' }
}

/** Returns the company's settings, its key, and what any program needs; no secret of the worker or of another company. */
function environmentFor({ environment }: Company): NodeJS.ProcessEnv {
  const ofCompany = new Set([...COMPANY_SETTINGS, ...KEY_SETTINGS])
  const own = Object.entries(environment).filter(([name]) => OWN_VARIABLES.test(name) || ofCompany.has(name))
  const compiled = getCompileCacheDir()
  // Node adds the directory of its own version.
  return {
    ...Object.fromEntries(own),
    ...(compiled === undefined ? {} : { NODE_COMPILE_CACHE: dirname(compiled) }),
  }
}
