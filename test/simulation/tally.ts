import { DURABLE_STEPS } from '#src/lib/durable.ts'

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

/** A violation is a sentence. Anything else is a bug in the simulation, or a crash, and needs its stack. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.name === 'Violation' ? error.message : (error.stack ?? error.message)
}

/** The counts by kind, and the steps at which no run crashed. */
export function describeCounts(counts: Iterable<readonly [string, number]>): string {
  const all = [...counts].sort(([a], [b]) => (a < b ? -1 : 1))
  const groups = Map.groupBy(all, ([what]) => (what.includes(': ') ? what.split(': ')[0] : 'change'))
  const lines = [...groups].map(([group, list]) => {
    const inGroup = list.map(([what, times]) => `${what.replace(/^.*: /, '')} ${times}`)
    return group === 'crash point' ? describeCrashPoints(list) : `${group}: ${inGroup.join(', ')}`
  })
  return lines.map(line => `${line}\n`).join('')
}

function describeCrashPoints(list: readonly (readonly [string, number])[]): string {
  const kinds = new Map<string, number>()
  for (const [what, times] of list) {
    const kind = what.replace(/^crash point: (.*) (before|after) .*$/, '$1')
    kinds.set(kind, (kinds.get(kind) ?? 0) + times)
  }
  const missed = DURABLE_STEPS.filter(step => !list.some(([what]) => what.endsWith(` ${step}`)))
  const never = missed.length > 0 ? `; never at ${missed.join(', ')}` : '; at each step'
  return `crash point: ${[...kinds].map(([kind, times]) => `${kind} ${times}`).join(', ')}${never}`
}
