import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { carryOut, startChild } from '#src/lib/child.ts'
import { getMessage } from '#src/lib/errors.ts'
import type { MonthOrder } from './prepared_month.ts'

const BUILD = join(import.meta.dirname, 'build.ts')

/** A month that was prepared once is kept, so few are enough. */
export const MAX_BUILDERS = 2
/** A month of a large company takes seconds. */
const MONTH_WITHIN_MS = 600_000

/** The months of one company that must be built. */
type Job = {
  readonly orders: MonthOrder[]
  /** Size of the orders that no builder has taken yet. */
  bytesLeft: number
  underWay: number
  readonly signal: AbortSignal
  readonly settle: (error: Error | null) => void
}

/**
 * Builds months in a few processes, which end when nothing is left to do. For each month, the company with the least
 * left to build comes first: forty small companies do not wait for a large one.
 */
export class Builders {
  readonly #most: number
  readonly #jobs = new Set<Job>()
  #processes = 0

  /** @param most processes at the same time. */
  constructor(most: number) {
    this.#most = most
  }

  /**
   * Resolves when all months are built.
   * @throws Error with the reason if one cannot be built; the remaining ones are then not begun.
   */
  async build(orders: readonly MonthOrder[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (orders.length === 0) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const job: Job = {
      orders: [...orders],
      bytesLeft: orders.reduce((sum, { bytes }) => sum + bytes, 0),
      underWay: 0,
      signal,
      settle: error => {
        this.#jobs.delete(job)
        if (error) reject(error)
        else resolve()
      },
    }
    this.#jobs.add(job)
    const stop = () => job.settle(new Error('stopped'))
    signal.addEventListener('abort', stop, { once: true })
    while (this.#processes < Math.min(this.#most, this.#waiting())) void this.#run()
    await promise.finally(() => signal.removeEventListener('abort', stop))
  }

  #waiting(): number {
    let waiting = this.#processes
    for (const { orders } of this.#jobs) waiting += orders.length
    return waiting
  }

  /** Runs one process until no orders are left. */
  async #run(): Promise<void> {
    this.#processes += 1
    let builder = null as ChildProcess | null
    for (let job = this.#next(); job; job = this.#next()) {
      const order = job.orders.shift() as MonthOrder
      job.bytesLeft -= order.bytes
      job.underWay += 1
      const error = await attempt(async () => {
        builder = builder?.connected ? builder : startChild(BUILD)
        const limits = { what: 'a builder', withinMs: MONTH_WITHIN_MS, signal: job.signal }
        return (await carryOut(builder, order, limits)).error
      })
      job.underWay -= 1
      if (error !== null) {
        // Whatever is wrong with this process, the next order gets a new one.
        builder?.kill('SIGKILL')
        builder = null
        job.orders.length = 0
        job.settle(new Error(error))
      } else if (job.orders.length === 0 && job.underWay === 0) job.settle(null)
    }
    this.#processes -= 1
    if (builder?.connected) builder.disconnect()
  }

  #next(): Job | null {
    let least: Job | null = null
    for (const job of this.#jobs) {
      if (job.orders.length > 0 && (least === null || job.bytesLeft < least.bytesLeft)) least = job
    }
    return least
  }
}

/** Runs `work`. @returns its error, or that a process could not be started; null if there was none. */
async function attempt(work: () => Promise<string | null>): Promise<string | null> {
  try {
    return await work()
  } catch (error) {
    return `a builder process cannot be started: ${getMessage(error)}`
  }
}
