import type { Place } from './linked_list.ts'
import type { Pace } from './pace.ts'
import { Round } from './round.ts'

/** Upper bound of a turn; its time mostly ends the batch sooner. */
const BATCH = 16

type Options<T> = {
  readonly pace: Pick<Pace, 'tryBegin'>
  /** Whether one more may begin. */
  readonly hasRoom: () => boolean
  readonly begin: (value: T) => void
}

/** What waits until the event loop has time for it; the owners take turns. */
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

  /** Begins it at once if there is time, or lets it wait. */
  enter(owner: string, place: Place<T>): void {
    if (this.#round.size === 0 && this.#mayBegin()) {
      this.#options.begin(place.value)
      return
    }
    this.#round.add(owner, place)
    this.beginNext()
  }

  /** @returns whether it waited. */
  leave(place: Place<T>): boolean {
    return this.#round.remove(place)
  }

  /** To be called when there is room again. */
  beginNext(): void {
    if (this.#round.size > 0 && this.#mayBegin()) this.#options.begin(this.#round.take() as T)
    if (this.#scheduled > 0 || !this.#options.hasRoom()) return
    this.#scheduled = Math.min(this.#round.size, BATCH)
    // One each, so that the time of what they leave to microtasks is counted too.
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
