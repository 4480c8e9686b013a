import { ApiError, ConnectionFailed } from './errors.js'

/** Waits after the first, second, … failure of the connection in a row, before jitter. */
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 10_000

/** How long failures that may pass are waited for. */
export class Patience {
  readonly #maxWaitMs: number
  readonly #signal: AbortSignal | undefined
  #waitedMs = 0
  #failures = 0

  constructor(maxWaitMs: number, signal: AbortSignal | undefined) {
    this.#maxWaitMs = maxWaitMs
    this.#signal = signal
  }

  /** Repeats what failed, after a wait, until it succeeds or the patience is over: then, its error is thrown. */
  async persist<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        await this.waitAfter(error)
      }
    }
  }

  /** @throws that error if it cannot pass, or would take too long; the signal's reason if it is aborted. */
  async waitAfter(error: unknown): Promise<void> {
    const ms = this.#waitMs(error)
    if (ms === null || this.#waitedMs + ms > this.#maxWaitMs) throw error
    this.#waitedMs += ms
    this.#failures += 1
    await sleep(ms, this.#signal)
  }

  /** After progress, later failures are waited for as if they were the first. */
  renew(): void {
    this.#waitedMs = 0
    this.#failures = 0
  }

  #waitMs(error: unknown): number | null {
    if (error instanceof ApiError) return isBusy(error) ? error.retryAfterMs : null
    if (!(error instanceof ConnectionFailed)) return null
    const ms = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures)
    // So that not all clients of a server that restarts come back at once.
    return ms * (0.5 + Math.random() / 2)
  }
}

function isBusy({ status }: ApiError): boolean {
  return status === 429 || status === 503
}

/** @throws the signal's reason if it is aborted. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop, { once: true })
  })
}
