/** While connections keep arriving, at most one batch of work begins in this time. */
const CROWD_PAUSE_MS = 10

/** Connections that were accepted in this turn of the event loop or the one before. */
let arrivals = 0

/** To be called for each connection that is accepted. */
export function countArrival(): void {
  arrivals += 1
  setImmediate(() =>
    setImmediate(() => {
      arrivals -= 1
    }),
  )
}

/**
 * Bounds how much work begins in a turn of the event loop. Each turn accepts one connection, however many wait (libuv):
 * each of them waits for the turns of all before it. So turns are kept short, and while connections arrive most turns
 * do nothing but accept them.
 */
export class Pace {
  readonly #budgetMs: number
  /** When this turn's batch began; null before it. */
  #beganMs: number | null = null
  #lastMs = Number.NEGATIVE_INFINITY

  /** @param budgetMs no more work begins after so long in a turn; what has begun is not interrupted. */
  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs
  }

  /** If true, the caller must begin its work now. */
  tryBegin(): boolean {
    const now = performance.now()
    if (this.#beganMs !== null) return now - this.#beganMs < this.#budgetMs
    if (arrivals > 0 && now - this.#lastMs < CROWD_PAUSE_MS) return false
    this.#beganMs = now
    this.#lastMs = now
    setImmediate(() => {
      this.#beganMs = null
    })
    return true
  }
}
