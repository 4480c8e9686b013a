/** While connections keep arriving, at most one batch of work starts per this time. */
const CROWD_PAUSE_MS = 10

/** Connections accepted in this turn of the event loop or the previous one. */
let arrivals = 0

/** Counts an arrival. Call this for each accepted connection. */
export function countArrival(): void {
  arrivals += 1
  setImmediate(() =>
    setImmediate(() => {
      arrivals -= 1
    }),
  )
}

/**
 * Bounds how much work starts in a turn of the event loop. Each turn accepts only one connection, however many wait
 * (libuv), so each waits for the turns of all before it. Turns are therefore kept short, and while connections arrive
 * most turns only accept them.
 */
export class TurnPace {
  readonly #budgetMs: number
  /** When this turn's batch started; null before that. */
  #beganMs: number | null = null
  #lastMs = Number.NEGATIVE_INFINITY

  /** @param budgetMs after this long in a turn, no more work starts. Running work is not interrupted. */
  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs
  }

  /** Returns whether there is time for more work. If true, the caller must start its work now. */
  tryBegin(): boolean {
    const now = performance.now()
    if (this.#beganMs !== null) return now - this.#beganMs < this.#budgetMs
    if (arrivals > 0 && now - this.#lastMs < CROWD_PAUSE_MS) return false
    this.#beganMs = now
    this.#lastMs = now
    setImmediate(() => {
      this.#beganMs = null
    })
    return true
  }
}

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

type Waiter = { readonly begin: () => void }

const AT_ONCE = { tryBegin: () => true }

/**
 * Bounds how much work runs at once, and shares it fairly: a client with many requests waits behind clients with
 * few.
 * @param pace bounds how much work starts in a turn of the event loop.
 * @returns a function that runs the work of `whose` when it is its turn. It resolves to null, without running the
 *   work, if `isWanted` is false by then.
 */
export function createTurns(
  places: number,
  pace: { tryBegin(): boolean } = AT_ONCE,
): <T>(whose: string, isWanted: () => boolean, work: () => Promise<T>) => Promise<T | null> {
  let free = places
  const room = new WaitingRoom<Waiter>({
    pace,
    hasRoom: () => free > 0,
    begin(waiter) {
      free -= 1
      waiter.begin()
    },
  })
  return async (whose, isWanted, work) => {
    await new Promise<void>(begin => room.enter(whose, new Place<Waiter>({ begin })))
    try {
      return isWanted() ? await work() : null
    } finally {
      free += 1
      room.beginNext()
    }
  }
}
