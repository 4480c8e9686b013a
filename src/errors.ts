/** Exit codes of every command; others build scripts on them. */
export const EXIT = { ok: 0, failed: 1, usage: 2, partial: 3, held: 4, interrupted: 130 } as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/**
 * Ends a command or a run: going on cannot help. The message says what happened and what to do, and is
 * all that the user sees.
 */
export class FatalError extends Error {
  override readonly name = 'FatalError'
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = EXIT.failed, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** Concerns one request, and so at most one notice: the run goes on without it and a later run tries again. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  /** The server or the network failed, and went on failing; the request itself was not refused. */
  readonly transient: boolean

  constructor(message: string, transient = false) {
    super(message)
    this.transient = transient
  }
}

/** The run was asked to stop; what is durable stays and the next run goes on from there. */
export class InterruptedError extends FatalError {
  constructor(message = 'Interrupted.') {
    super(message, EXIT.interrupted)
  }
}

/** Throws InterruptedError once the signal is aborted. */
export function throwIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw new InterruptedError()
}

/** The operating system's code of an error (`ENOSPC`, `ECONNREFUSED`, …), also where it is wrapped. */
export function systemCode(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
  }
  return undefined
}

/** One line about any thrown value, without a stack. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n')[0] ?? message
}
