/** The place of a value in one list at a time; made once, and used again. */
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
 * Values in the order in which they came, for what moves with every request. A `Set` keeps that order as well, but
 * leaves its old tables behind, each of which keeps the next alive: the garbage collector then copies megabytes of them.
 */
export class LinkedList<T> implements Iterable<T> {
  #first: Place<T> | null = null
  #last: Place<T> | null = null
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The one that has been here longest. */
  get first(): T | null {
    return this.#first?.value ?? null
  }

  get firstPlace(): Place<T> | null {
    return this.#first
  }

  /** The one that came last. */
  get last(): T | null {
    return this.#last?.value ?? null
  }

  /** Puts it at the end; it leaves the list that it was in. */
  add(place: Place<T>): void {
    place.list?.remove(place)
    place.list = this
    place.before = this.#last
    if (this.#last) this.#last.after = place
    else this.#first = place
    this.#last = place
    this.#size += 1
  }

  /** @returns whether it was here. */
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

  /** The first of them that is as asked. */
  find(isAsAsked: (value: T) => boolean): T | null {
    for (const value of this) if (isAsAsked(value)) return value
    return null
  }

  /** The one that is shown may be removed meanwhile. */
  *[Symbol.iterator](): Generator<T> {
    for (let place = this.#first; place; ) {
      const { after, value } = place
      yield value
      place = after
    }
  }
}
