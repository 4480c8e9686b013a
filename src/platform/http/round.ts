import { LinkedList, type Place } from './linked_list.ts'

class Queue<T> extends LinkedList<T> {
  readonly owner: string

  constructor(owner: string) {
    super()
    this.owner = owner
  }
}

/** A queue that takes from each owner in turn. */
export class Round<T> {
  readonly #queues = new Map<string, Queue<T>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Returns the next one in turn. */
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
