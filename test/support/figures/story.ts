import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import type { Entry, World } from '#src/sandbox/world.ts'
import { cornersOf } from './corners.ts'

/** What the API serves to each run, except the last run, which gets nothing. */
export type Story = {
  /** The times of the runs. */
  readonly times: readonly Date[]
  /** Sets the world to what the run with this index must read. */
  readonly tell: (world: World, run: number) => void
}

const HOUR_MS = 3_600_000
/** The last two are further apart than snapshots whose only news is a run. */
const HOURS_AGO = [144, 60, 2, 0.4]
/** The phases that the last run reads analyses of: unread analyses of other phases are left out from then on. */
export const ANALYSED = ['screening', 'analysis']
const NOTICES = 200
const TICKS_BETWEEN_RUNS = 60

/**
 * Generated notices that change from run to run, and handmade ones among them. The first run is when they are
 * generated, the last one just before `now`.
 */
export function storyUntil(now: Date): Story {
  const times = HOURS_AGO.map(hours => new Date(now.getTime() - hours * HOUR_MS))
  const crowd = generateWorld({ seed: 11, company: 'acme', notices: NOTICES, start: times[0] as Date })
  const random = createRandom('figures')

  function live(from: Date, to: Date): void {
    const step = (to.getTime() - from.getTime()) / (TICKS_BETWEEN_RUNS + 1)
    for (let turn = 1; turn <= TICKS_BETWEEN_RUNS; turn += 1) {
      tick(crowd, random, new Date(from.getTime() + turn * step))
    }
  }

  return {
    times,
    tell(world, run) {
      const [from, to] = [times[run - 1], times[run]]
      if (from && to) live(from, to)
      show(world, [...entriesOf(crowd), ...cornersOf(run, now)])
    },
  }
}

export function entriesOf(world: World): Entry[] {
  return world.ids().flatMap(id => world.entry(id) ?? [])
}

/** Handmade notices must not change by ticks, so they are shown with the generated ones but are not in their world. */
function show(world: World, entries: readonly Entry[]): void {
  const shown = new Set(entries.map(({ edital }) => edital.id))
  for (const id of world.ids()) if (!shown.has(id)) world.remove(id)
  for (const entry of entries) world.put(entry)
}
