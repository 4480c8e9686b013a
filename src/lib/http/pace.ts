/** While connections keep arriving, at most one batch of work starts per this time. */
const CROWD_PAUSE_MS = 10

/** Connections accepted in this turn of the event loop or the previous one. */
let arrivals = 0

/** Counts an arrival. Call this for each accepted connection. */
export function countArrival(): void {
  arrivals += 1
  setImmediate(() =>
    setImmediate(() => {
      arrivals -= 1
    }),
  )
}

/**
 * Bounds how much work starts in a turn of the event loop. Each turn accepts only one connection, however many wait
 * (libuv), so each waits for the turns of all before it. Turns are therefore kept short, and while connections arrive
 * most turns only accept them.
 */
export class TurnPace {
  readonly #budgetMs: number
  /** When this turn's batch started; null before that. */
  #beganMs: number | null = null
  #lastMs = Number.NEGATIVE_INFINITY

  /** @param budgetMs after this long in a turn, no more work starts. Running work is not interrupted. */
  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs
  }

  /** Returns whether there is time for more work. If true, the caller must start its work now. */
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
