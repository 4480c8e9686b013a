import { Pace } from './pace.ts'
import { Round } from './round.ts'

/** So many begin in a turn at most, if their time suffices. */
const BEGIN_AT_ONCE = 16

/** Work that begins as soon as the event loop has time for it, shared out among those whose it is. */
export class WaitingRoom {
  readonly #pace: Pace
  readonly #mayBegin: () => boolean
  readonly #round = new Round<() => void>()
  #looks = 0

  /**
   * @param budgetMs of each turn of the event loop.
   * @param mayBegin whether there is room for one more.
   */
  constructor(budgetMs: number, mayBegin: () => boolean = () => true) {
    this.#pace = new Pace(budgetMs)
    this.#mayBegin = mayBegin
  }

  enter(whose: string, begin: () => void): void {
    if (this.#round.size === 0 && this.#mayBegin() && this.#pace.begins()) {
      begin()
      return
    }
    this.#round.add(whose, begin)
    this.look()
  }

  /** To be called when there is room again. */
  look(): void {
    this.#beginOne()
    if (this.#looks > 0 || !this.#mayBegin()) return
    this.#looks = Math.min(this.#round.size, BEGIN_AT_ONCE)
    // One each, so that what it leaves to a later moment of the same turn is counted too.
    for (let n = 0; n < this.#looks; n += 1) {
      setImmediate(() => {
        this.#looks -= 1
        this.look()
      })
    }
  }

  #beginOne(): void {
    if (this.#round.size > 0 && this.#mayBegin() && this.#pace.begins()) this.#round.take()?.()
  }
}
