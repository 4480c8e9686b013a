import { Refusal } from '#src/api/server/source.ts'

/** Requests of one key that may wait at the same time: a client needs one. */
const MOST_PER_KEY = 20
/** Of all keys: each holds a connection and a few kilobytes. */
const MOST = 500
const RETRY_AFTER_SECONDS = 5

/** Why a wait ended: something was published, its time is over, the server stops, or its client is gone. */
export type Woken = 'published' | 'late' | 'stopping' | 'gone'

type Sleeper = { readonly company: string; readonly wake: (why: Woken) => void }

/** Requests that wait for the next snapshot of a company. Waiting costs a connection and a timer. */
export class Waiting {
  readonly #byKey = new Map<string, number>()
  readonly #sleepers = new Set<Sleeper>()
  #places = 0
  #isStopping = false

  /** Requests that may wait. */
  get size(): number {
    return this.#places
  }

  /**
   * Takes a place for a request that may wait, perhaps several times.
   * @returns a function that gives the place back; it may be called again.
   * @throws Refusal (429) if this key, or all keys, have too many.
   */
  enter(key: string): () => void {
    const own = this.#byKey.get(key) ?? 0
    if (own >= MOST_PER_KEY)
      throw new Refusal(
        429,
        `${own} requests of this key already wait for changes. Use one connection for all of them.`,
        RETRY_AFTER_SECONDS,
      )
    if (this.#places >= MOST)
      throw new Refusal(429, 'Too many requests already wait for changes.', RETRY_AFTER_SECONDS)
    this.#byKey.set(key, own + 1)
    this.#places += 1
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#places -= 1
      const left = (this.#byKey.get(key) as number) - 1
      if (left > 0) this.#byKey.set(key, left)
      else this.#byKey.delete(key)
    }
  }

  /** Resolves when there is a new snapshot of the company, or earlier. */
  sleep(company: string, ms: number, gone: AbortSignal): Promise<Woken> {
    if (this.#isStopping) return Promise.resolve('stopping')
    if (gone.aborted) return Promise.resolve('gone')
    return new Promise(resolve => {
      const wake = (why: Woken) => {
        clearTimeout(timer)
        gone.removeEventListener('abort', leave)
        this.#sleepers.delete(sleeper)
        resolve(why)
      }
      const leave = () => wake('gone')
      const timer = setTimeout(() => wake('late'), ms)
      const sleeper = { company, wake }
      gone.addEventListener('abort', leave)
      this.#sleepers.add(sleeper)
    })
  }

  /** A snapshot of this company was published. */
  wake(company: string): void {
    for (const sleeper of [...this.#sleepers]) if (sleeper.company === company) sleeper.wake('published')
  }

  /** Ends all waits, and those that are begun later. */
  stop(): void {
    this.#isStopping = true
    for (const sleeper of [...this.#sleepers]) sleeper.wake('stopping')
  }
}
