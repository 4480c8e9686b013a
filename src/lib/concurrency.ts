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
export function shareCalls<T>(make: () => Promise<T>): () => Promise<T> {
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

type Most = {
  readonly ofKey: number
  /** Less than all, so that no company takes the places of the others. */
  readonly ofCompany: number
  readonly inAll: number
}

export type Whose = { readonly company: string; readonly key: string }

/** A limited number of places, for requests that hold something for long. */
export class Places {
  readonly #most: Most
  readonly #refuse: (taken: number, by: keyof Most) => Error
  readonly #taken = new Map<string, number>()
  #size = 0

  /** @param refuse what a request is answered if this many places are taken. */
  constructor(most: Most, refuse: (taken: number, by: keyof Most) => Error) {
    this.#most = most
    this.#refuse = refuse
  }

  /** Places that are taken. */
  get size(): number {
    return this.#size
  }

  /**
   * Takes a place for a request. @returns a function that gives the place back; it may be called again.
   * @throws the refusal if its key, its company or all have too many.
   */
  take({ company, key }: Whose): () => void {
    const names = [`key ${key}`, `company ${company}`]
    const [ofKey = 0, ofCompany = 0] = names.map(name => this.#taken.get(name) ?? 0)
    if (ofKey >= this.#most.ofKey) throw this.#refuse(ofKey, 'ofKey')
    if (ofCompany >= this.#most.ofCompany) throw this.#refuse(ofCompany, 'ofCompany')
    if (this.#size >= this.#most.inAll) throw this.#refuse(this.#size, 'inAll')
    this.#count(names, 1)
    let isTaken = true
    return () => {
      if (isTaken) this.#count(names, -1)
      isTaken = false
    }
  }

  #count(names: readonly string[], change: 1 | -1): void {
    this.#size += change
    for (const name of names) {
      const taken = (this.#taken.get(name) ?? 0) + change
      if (taken > 0) this.#taken.set(name, taken)
      else this.#taken.delete(name)
    }
  }
}
