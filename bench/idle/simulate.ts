import { createRandom } from '#src/sandbox/random.ts'
import { percentile } from '../daemon/watch.ts'
import type { IdleOptions } from './bench.ts'
import type { Measured } from './measure.ts'

/** Two cores, each with a worker: a worker looks on one thread. */
const WORKERS = 2
/** The default schedule, and over how much of it ticks are spread (`jobs/jitter.ts`). */
const PERIOD_MS = 5 * 60_000
const SPREAD_MS = 60_000
const HOUR_MS = 3_600_000

/** A simulated period of many companies with nothing new, at the measured costs. */
export type Simulated = {
  /** From a company's tick to the end of its look; milliseconds. */
  readonly waitMs: { readonly p50: number; readonly p99: number; readonly max: number }
  /** From the first tick to the end of the last look. */
  readonly lastMs: number
  /** Share of both cores that the looks take, and with the runs that RUN_AT_LEAST_EVERY asks for. */
  readonly load: number
  readonly loadWithRuns: readonly { readonly everyHours: number; readonly load: number }[]
}

export function simulate(measured: Measured, { scheduled, seed }: IdleOptions): Simulated {
  const random = createRandom(`idle ${seed}`)
  const { lookMs, workerMs, redisMs, runMs } = measured
  const mean = lookMs.reduce((sum, ms) => sum + ms, 0) / lookMs.length
  // What the queue and its Redis cost comes on top of each look.
  const aroundMs = Math.max(0, workerMs + redisMs - mean)
  const ticks = Array.from({ length: scheduled }, () => random.next() * SPREAD_MS).sort((a, b) => a - b)
  const freeMs = Array.from({ length: WORKERS }, () => 0)
  const waits: number[] = []
  for (const tick of ticks) {
    const worker = freeMs.indexOf(Math.min(...freeMs))
    const end = Math.max(tick, freeMs[worker] as number) + random.pick(lookMs) + aroundMs
    freeMs[worker] = end
    waits.push(end - tick)
  }
  const load = (scheduled * (mean + aroundMs)) / PERIOD_MS / WORKERS
  const at = (share: number) => percentile(waits, share)
  return {
    waitMs: { p50: at(0.5), p99: at(0.99), max: at(1) },
    lastMs: Math.max(...freeMs),
    load,
    loadWithRuns: [1, 6, 24].map(everyHours => ({
      everyHours,
      load: load + (scheduled * runMs) / (everyHours * HOUR_MS) / WORKERS,
    })),
  }
}
