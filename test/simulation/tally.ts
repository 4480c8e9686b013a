import { describeCounts } from './summary.ts'

/** A worker's result for a seed. */
export type Outcome = {
  readonly seed: string
  readonly failure: string | null
  readonly counts: readonly (readonly [string, number])[]
}

/** Length of a failure's text in a list; a replay prints it whole. */
const SHOWN_LENGTH = 300

type About = { readonly from: number; readonly workers: number; readonly kind: readonly string[] }

/** What the seeds gave that have ended. */
export class Tally {
  done = 0
  failed = 0
  readonly #about: About
  readonly #counts = new Map<string, number>()
  readonly #startedMs = performance.now()

  constructor(about: About) {
    this.#about = about
  }

  /** Counts a seed, and prints its failure. */
  add({ seed, failure, counts }: Outcome): void {
    this.done += 1
    for (const [what, times] of counts) this.#counts.set(what, (this.#counts.get(what) ?? 0) + times)
    if (failure === null) return
    this.failed += 1
    const again = [...this.#about.kind, '--seed', seed].join(' ')
    process.stdout.write(
      `Seed ${seed}: ${failure.split('\n')[0]?.slice(0, SHOWN_LENGTH)} (npm run simulate -- ${again})\n`,
    )
  }

  print(): void {
    const { from, workers } = this.#about
    const minutes = (performance.now() - this.#startedMs) / 60_000
    process.stdout.write(describeCounts(this.#counts))
    process.stdout.write(
      `${this.done} seeds from ${from}, ${this.failed} failed; ${Math.round(this.done / minutes)} seeds a minute with ${workers} workers.\n`,
    )
  }
}
