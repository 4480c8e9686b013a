import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

const PATIENCE_MS = 5000

/**
 * Makes one answer for all who ask before it is begun: it is as fresh as one of their own, and a thousand who ask cost
 * as much as one. Answers are made one after another.
 */
export function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let waiting: Promise<T> | null = null
  let last: Promise<unknown> = Promise.resolve()
  return () => {
    waiting ??= last.then(async () => {
      // Whoever asked in this turn of the event loop is among them.
      await nextTurn()
      waiting = null
      return await make()
    })
    // One that hangs keeps nobody from the next.
    last = Promise.race([waiting.catch(() => {}), sleep(PATIENCE_MS, undefined, { ref: false })])
    return waiting
  }
}
