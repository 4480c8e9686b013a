import { explainRedisRefusal } from './redis_refusal.ts'

/** Exit codes of every command. Users' scripts rely on them. */
export const EXIT = { ok: 0, failed: 1, usage: 2, partial: 3, held: 4, interrupted: 130 } as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Why something went wrong, for programs; people read the message. */
export type Cause =
  | 'key_refused'
  | 'identity_guard'
  | 'mass_deletion_held'
  | 'missing_unverified'
  | 'wrong_settings'
  | 'newer_schema'
  | 'mail_unreachable'
  | 'killed'

/**
 * Ends a command or a run, because continuing cannot help. The message says what happened and what to do, and
 * is all that the user sees.
 */
export class FatalError extends Error {
  override readonly name = 'FatalError'
  readonly exitCode: ExitCode
  readonly why: Cause | null

  constructor(
    message: string,
    exitCode: ExitCode = EXIT.failed,
    { why = null, ...options }: ErrorOptions & { why?: Cause | null } = {},
  ) {
    super(message, options)
    this.exitCode = exitCode
    this.why = why
  }
}

/** Affects one request, so at most one notice. The run continues without it, and a later run retries. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  /** The server or the network kept failing; the request itself was not rejected. */
  readonly transient: boolean

  constructor(message: string, transient = false) {
    super(message)
    this.transient = transient
  }
}

/** The API has the notice but, by its settings, not its analysis. Not a failure; a retry would not help. */
export class ExcludedError extends RequestError {}

/** The run was asked to stop. Durable data is kept, and the next run continues from there. */
export class InterruptedError extends FatalError {
  constructor(message = 'Interrupted.') {
    super(message, EXIT.interrupted)
  }
}

/** Throws InterruptedError once the signal is aborted. */
export function throwIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw new InterruptedError()
}

/** Returns what was read; null if nothing is there. */
export async function ignoreMissing<T>(reading: Promise<T>): Promise<T | null> {
  return await reading.catch(error => {
    if (findSystemCode(error) === 'ENOENT') return null
    throw error
  })
}

/** Returns the system error code (`ENOSPC`, `ECONNREFUSED`, …), even if the error is wrapped. */
export function findSystemCode(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code
  }
  return undefined
}

/** Returns a one-line message for any thrown value, without a stack. */
export function getMessage(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n')[0] ?? message
}

/** Returns a clear message for any thrown value, and the matching exit code. Never a stack trace. */
export function explain(error: unknown): { readonly message: string; readonly exitCode: ExitCode } {
  if (error instanceof FatalError) return { message: error.message, exitCode: error.exitCode }
  const text = getMessage(error)
  if (error instanceof RequestError) {
    const message = `The API could not be read: ${text}. Nothing was changed. Run again later.`
    return { message, exitCode: EXIT.failed }
  }
  if (findSystemCode(error) === 'ENOSPC' || /No space left on device/.test(text)) {
    return {
      message:
        'The disk is full. Data already loaded is safe. Free some space (a shorter SNAPSHOT_KEEP and `editais publish` remove old snapshots), then run again.',
      exitCode: EXIT.failed,
    }
  }
  if (error instanceof Error && error.name === 'ReplyError') {
    return { message: explainRedisRefusal(text), exitCode: EXIT.failed }
  }
  if (['EACCES', 'EROFS', 'EPERM'].includes(findSystemCode(error) ?? '')) {
    return { message: `${text}. Check that this user can write to DATA_DIR.`, exitCode: EXIT.usage }
  }
  return {
    message: `Unexpected: ${text}. This is a bug in editais-sync; the data is as the last run left it.`,
    exitCode: EXIT.failed,
  }
}
