/** A value's node, in at most one list at a time. It is created once and reused. */
export class Place<T> {
  readonly value: T
  before: Place<T> | null = null
  after: Place<T> | null = null
  list: LinkedList<T> | null = null

  constructor(value: T) {
    this.value = value
  }
}

/**
 * Values in order of insertion, for values that move with every request. A `Set` keeps that order too, but leaves its
 * old tables behind, each keeping the next alive, so the garbage collector copies megabytes of them.
 */
export class LinkedList<T> implements Iterable<T> {
  #first: Place<T> | null = null
  #last: Place<T> | null = null
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Returns the value that has been in the list longest. */
  get first(): T | null {
    return this.#first?.value ?? null
  }

  get firstPlace(): Place<T> | null {
    return this.#first
  }

  /** Returns the value added last. */
  get last(): T | null {
    return this.#last?.value ?? null
  }

  /** Adds it at the end, after removing it from its current list. */
  add(place: Place<T>): void {
    place.list?.remove(place)
    place.list = this
    place.before = this.#last
    if (this.#last) this.#last.after = place
    else this.#first = place
    this.#last = place
    this.#size += 1
  }

  /** @returns whether it was in this list. */
  remove(place: Place<T>): boolean {
    if (place.list !== this) return false
    if (place.before) place.before.after = place.after
    else this.#first = place.after
    if (place.after) place.after.before = place.before
    else this.#last = place.before
    place.list = place.before = place.after = null
    this.#size -= 1
    return true
  }

  /** Returns the first value that matches, or null. */
  find(matches: (value: T) => boolean): T | null {
    for (const value of this) if (matches(value)) return value
    return null
  }

  /** The current value may be removed during iteration. */
  *[Symbol.iterator](): Generator<T> {
    for (let place = this.#first; place; ) {
      const { after, value } = place
      yield value
      place = after
    }
  }
}
