import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 5000

/**
 * Makes one answer for all callers that arrive before it is started. It is as fresh as one of their own, and a thousand
 * callers cost as much as one. Answers are made one after another.
 */
export function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let waiting: Promise<T> | null = null
  let last: Promise<unknown> = Promise.resolve()
  return () => {
    waiting ??= last.then(async () => {
      // Callers in this turn of the event loop are included.
      await nextTurn()
      waiting = null
      return await make()
    })
    // An answer that hangs does not block the next one for longer than this.
    last = Promise.race([waiting.catch(() => {}), sleep(PATIENCE_MS, undefined, { ref: false })])
    return waiting
  }
}
