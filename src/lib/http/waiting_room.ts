import { LinkedList, type Place } from './linked_list.ts'
import type { TurnPace } from './pace.ts'

class Queue<T> extends LinkedList<T> {
  readonly owner: string

  constructor(owner: string) {
    super()
    this.owner = owner
  }
}

/** A queue that takes from each owner in turn. */
class Round<T> {
  readonly #queues = new Map<string, Queue<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Returns the place whose turn is next. */
  get first(): Place<T> | null {
    return this.#queues.values().next().value?.firstPlace ?? null
  }

  add(owner: string, place: Place<T>): void {
    const queue = this.#queues.get(owner) ?? new Queue<T>(owner)
    this.#queues.set(owner, queue)
    queue.add(place)
    this.#size += 1
  }

  /** Takes the next one in turn and moves on to the next owner. */
  take(): T | null {
    const { first } = this
    if (!first) return null
    const queue = first.list as Queue<T>
    this.remove(first)
    // A map keeps insertion order, so this moves the owner to the end.
    if (this.#queues.delete(queue.owner)) this.#queues.set(queue.owner, queue)
    return first.value
  }

  /** @returns whether it was in this queue. */
  remove(place: Place<T>): boolean {
    const queue = place.list
    if (!(queue instanceof Queue) || this.#queues.get(queue.owner) !== queue) return false
    queue.remove(place)
    this.#size -= 1
    if (queue.size === 0) this.#queues.delete(queue.owner)
    return true
  }
}

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
