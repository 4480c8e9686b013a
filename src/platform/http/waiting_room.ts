import type { Place } from './linked_list.ts'
import type { TurnPace } from './pace.ts'
import { Round } from './round.ts'

/** Upper bound per turn; usually the time budget ends the batch sooner. */
const BATCH = 16

type Options<T> = {
  readonly pace: Pick<TurnPace, 'tryBegin'>
  /** Whether one more may start. */
  readonly hasRoom: () => boolean
  readonly begin: (value: T) => void
}

/** Values that wait until the event loop has time for them. Owners take turns. */
export class WaitingRoom<T> {
  readonly #options: Options<T>
  readonly #round = new Round<T>()
  #scheduled = 0

  constructor(options: Options<T>) {
    this.#options = options
  }

  get size(): number {
    return this.#round.size
  }

  /** Starts it at once if there is time; otherwise it waits. */
  enter(owner: string, place: Place<T>): void {
    if (this.#round.size === 0 && this.#mayBegin()) {
      this.#options.begin(place.value)
      return
    }
    this.#round.add(owner, place)
    this.beginNext()
  }

  /** Removes a waiting element. @returns whether it waited. */
  leave(place: Place<T>): boolean {
    return this.#round.remove(place)
  }

  /** Begins what waits, as far as there is room. Call this when there is room again. */
  beginNext(): void {
    if (this.#round.size > 0 && this.#mayBegin()) this.#options.begin(this.#round.take() as T)
    if (this.#scheduled > 0 || !this.#options.hasRoom()) return
    this.#scheduled = Math.min(this.#round.size, BATCH)
    // One immediate each, so that time spent in their microtasks counts too.
    for (let n = 0; n < this.#scheduled; n += 1) {
      setImmediate(() => {
        this.#scheduled -= 1
        this.beginNext()
      })
    }
  }

  #mayBegin(): boolean {
    return this.#options.hasRoom() && this.#options.pace.tryBegin()
  }
}
