/** A queue that is shared out: who has put much into it waits behind those who have put in little. */
export class Round<T> {
  readonly #queues = new Map<string, T[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  add(whose: string, one: T): void {
    const queue = this.#queues.get(whose)
    if (queue) queue.push(one)
    else this.#queues.set(whose, [one])
    this.#size += 1
  }

  take(): T | undefined {
    // The map's order is the round: who is served goes to its end.
    const [whose, queue] = this.#queues.entries().next().value ?? []
    if (whose === undefined || queue === undefined) return undefined
    const one = queue.shift()
    this.#size -= 1
    this.#queues.delete(whose)
    if (queue.length > 0) this.#queues.set(whose, queue)
    return one
  }
}
