import { Places, type Whose } from '#src/lib/concurrency.ts'
import { Refusal } from '#src/server/contract/source.ts'

const RETRY_AFTER_SECONDS = 5

/** Why a wait ended: something was published, its time is over, the server stops, or its client is gone. */
export type Woken = 'published' | 'late' | 'stopping' | 'gone'

type Sleeper = { readonly company: string; readonly wake: (why: Woken) => void }

/** Requests that wait for the next snapshot of a company. Waiting costs a connection and a timer. */
export class Waiting {
  /** Each holds a connection and a few kilobytes; a client needs one. */
  readonly #places = new Places({ ofKey: 20, ofCompany: 150, inAll: 500 }, (taken, by) => {
    const whose = { ofKey: 'of this key', ofCompany: "of this company's keys", inAll: 'of all clients' }
    const message = `${taken} requests ${whose[by]} already wait for changes. Use one connection for all of them.`
    return new Refusal(429, message, RETRY_AFTER_SECONDS)
  })
  readonly #sleepers = new Set<Sleeper>()
  #isStopping = false

  /** Requests that may wait. */
  get size(): number {
    return this.#places.size
  }

  /**
   * Takes a place for a request that may wait, perhaps several times.
   * @returns a function that gives the place back; it may be called again.
   * @throws Refusal (429) if its key, its company or all clients have too many.
   */
  enter(whose: Whose): () => void {
    return this.#places.take(whose)
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

  /** Wakes the requests that wait for a company: it published a snapshot. */
  wake(company: string): void {
    for (const sleeper of [...this.#sleepers]) if (sleeper.company === company) sleeper.wake('published')
  }

  /** Ends all waits, and those that are begun later. */
  stop(): void {
    this.#isStopping = true
    for (const sleeper of [...this.#sleepers]) sleeper.wake('stopping')
  }
}
