import type { Fault } from '#src/sandbox/faults.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { type Facts, factsOf } from '../company/truth.ts'
import { answerCalls } from '../processes/calls.ts'

/** The sandbox with a world that changes as fast as its caller wants, in a separate process. */

/** The only argument, as JSON. */
export type WorldOptions = {
  readonly notices: number
  readonly seed: string
  readonly apiKey: string
  /** Start of the world: nothing in it is newer. */
  readonly start: string
}

/** An hour that ends at `at` and has this many ticks; the faults affect the run after it. */
type Passing = { readonly at: string; readonly ticks: number; readonly faults: readonly Fault[] }

const HOUR_MS = 3_600_000

const { notices, seed, apiKey, start } = JSON.parse(process.argv[2] as string) as WorldOptions
const world = generateWorld({ seed, company: 'bench', notices, start: new Date(start) })
const random = createRandom(`${seed} life`)
const sandbox = await startSandbox({ companies: [{ slug: 'bench', key: apiKey, world }], seed })

const calls = {
  url: () => sandbox.url,
  /** @returns the notices that there are then, and the number of changes. */
  pass({ at, ticks, faults }: Passing): { notices: number; changes: number } {
    const fromMs = Date.parse(at) - HOUR_MS
    const changes = Array.from({ length: ticks }, (_, index) =>
      tick(world, random, new Date(fromMs + ((index + 1) / ticks) * HOUR_MS)),
    ).flat()
    sandbox.faults.plan = [...faults]
    sandbox.requests.reset()
    return { notices: world.size, changes: changes.length }
  },
  /** Requests since the last `pass`. */
  counted: () => sandbox.requests.total,
  facts: (): Facts[] => factsOf(world),
}
export type WorldCalls = typeof calls

answerCalls(calls)
