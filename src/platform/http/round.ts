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

  /** The one whose turn it is. */
  get first(): Place<T> | null {
    return this.#queues.values().next().value?.firstPlace ?? null
  }

  add(owner: string, place: Place<T>): void {
    const queue = this.#queues.get(owner) ?? new Queue<T>(owner)
    this.#queues.set(owner, queue)
    queue.add(place)
    this.#size += 1
  }

  /** Takes the one whose turn it is; then it is the next owner's turn. */
  take(): T | null {
    const { first } = this
    if (!first) return null
    const queue = first.list as Queue<T>
    this.remove(first)
    // A map keeps the order of entering.
    if (this.#queues.delete(queue.owner)) this.#queues.set(queue.owner, queue)
    return first.value
  }

  /** @returns whether it was here. */
  remove(place: Place<T>): boolean {
    const queue = place.list
    if (!(queue instanceof Queue) || this.#queues.get(queue.owner) !== queue) return false
    queue.remove(place)
    this.#size -= 1
    if (queue.size === 0) this.#queues.delete(queue.owner)
    return true
  }
}
