import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

/** Runs at most `count` calls at the same time, in their order; the others wait. */
export function createSlots(count: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let free = count
  return async work => {
    if (free > 0) free -= 1
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free += 1
    }
  }
}

/**
 * Runs `count` workers concurrently. If one fails, the others stop, and its error is thrown only after all
 * have ended. So no worker still uses what the caller is about to close.
 */
export async function runConcurrently(
  count: number,
  work: (stopped: () => boolean) => Promise<void>,
): Promise<void> {
  let failed = false
  const outcomes = await Promise.allSettled(
    Array.from({ length: count }, () =>
      work(() => failed).catch(error => {
        failed = true
        throw error
      }),
    ),
  )
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
}

/** Longer work is interrupted for other requests. */
const WORK_FOR_MS = 2

/** Work that was interrupted. One piece continues in each turn of the event loop, so that a turn stays short. */
const interrupted: (() => void)[] = []

function goOn(): void {
  interrupted.shift()?.()
  if (interrupted.length > 0) setImmediate(goOn)
}

/** Returns a function to await in the middle of long work: after a few milliseconds of work, it lets other work go first. */
export function createPause(): () => Promise<void> {
  let sinceMs = performance.now()
  return async () => {
    if (performance.now() - sinceMs < WORK_FOR_MS) return
    await new Promise<void>(resolve => {
      interrupted.push(resolve)
      if (interrupted.length === 1) setImmediate(goOn)
    })
    sinceMs = performance.now()
  }
}

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
