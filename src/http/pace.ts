/** While connections are taken in turn after turn, work begins so rarely. */
const PAUSE_MS = 10

/** Connections that were taken in this turn of the event loop or the one before. */
let arrivals = 0

/** To be called for each connection that is taken. */
export function noteArrival(): void {
  arrivals += 1
  setImmediate(() =>
    setImmediate(() => {
      arrivals -= 1
    }),
  )
}

/**
 * How much work may begin in a turn of the event loop. Of however many connections wait, each turn takes one (libuv):
 * they wait for the length of a turn times the number of those before them. So turns are kept short, and most of them
 * do nothing else while there are connections to be taken.
 */
export class Pace {
  readonly #budgetMs: number
  /** When the first piece of work of this turn began; null before it. */
  #beganMs: number | null = null
  #lastMs = Number.NEGATIVE_INFINITY

  /** @param budgetMs after this time no more work begins in the same turn; 0 for one piece a turn. */
  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs
  }

  /** Whether a piece of work may begin now; if so, it does. */
  begins(): boolean {
    const now = performance.now()
    if (this.#beganMs !== null) return now - this.#beganMs < this.#budgetMs
    if (arrivals > 0 && now - this.#lastMs < PAUSE_MS) return false
    this.#beganMs = now
    this.#lastMs = now
    setImmediate(() => {
      this.#beganMs = null
    })
    return true
  }
}
