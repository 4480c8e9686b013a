import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '#src/sandbox/random.ts'
import type { Fleet } from './fleet.ts'

/** How often another host is cut off after a loss. */
const CUT_CHANCE = 0.75
/** Of the longest: by default some cuts are shorter than the 60 s after which an owner is taken over, some longer. */
const SHORTEST_CUT = 1 / 3

/**
 * Again and again, loses a host with its disk; and if hosts can be cut off, often also cuts off another one for a while,
 * as long as one stays. A host that is cut off is not lost: it comes back with what it could not seal.
 * @returns how many hosts were lost.
 */
export async function loseNowAndThen(
  fleet: Fleet,
  options: {
    seconds: number
    every: number
    seed: string
    /** The longest time that a host is cut off, in seconds. */
    cut: number
    canCut: boolean
    onStep: (step: string) => void
  },
): Promise<number> {
  const { seconds, every, seed, cut, canCut, onStep } = options
  const random = createRandom(`losses ${seed}`)
  let losses = 0
  for (const fromMs = Date.now(); Date.now() - fromMs < seconds * 1000; ) {
    await sleep(every * 1000)
    const lost = random.pick(fleet.connected())
    losses += 1
    onStep(`losing host ${lost.number + 1} (${losses})`)
    await fleet.lose(lost)
    const others = fleet.connected().filter(({ number }) => number !== lost.number)
    if (!canCut || others.length === 0 || !random.chance(CUT_CHANCE)) continue
    const apart = random.pick(others)
    const duration = random.int(Math.ceil(cut * SHORTEST_CUT), cut)
    onStep(`cutting off host ${apart.number + 1} for ${duration} s`)
    await fleet.cut(apart, duration * 1000)
  }
  return losses
}
