import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { observeSteps } from '#src/platform/durable.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { attempt } from './attempt.ts'
import { drawCrashPoint } from './crash_point.ts'
import { CALM, drawNetworkFaults, type NetworkFaults } from './network_faults.ts'
import { drawOperation } from './operations.ts'
import { count, openPlay, type Play } from './play.ts'
import { quietEnd } from './quiet.ts'

const HOUR_MS = 3_600_000

/** With so many live notices another company's key is recognised (`src/pipeline/missing.ts`). */
const GUARDED_FROM = 20

/**
 * One life of a warehouse, out of a seed: a company that changes between and during the requests, an API that
 * fails, a disk that fails, a process that dies, an operator. After each run the oracle looks at what there is,
 * and at the end, when all is well again, whether it is the truth.
 * @param tell is told of each run, for whoever wants to follow.
 * @returns how often what happened.
 * @throws Violation of an invariant.
 */
export async function simulate(
  seed: string,
  tell: (line: string) => void = () => {},
): Promise<ReadonlyMap<string, number>> {
  const random = createRandom(`simulation ${seed}`)
  const place = await mkdtemp(join(tmpdir(), 'editais-sync-simulation-'))
  const drawn = Math.random
  // Backoff has jitter; with the same seed the same one.
  Math.random = createRandom(`jitter ${seed}`).next
  const play = { ...(await openPlay(random, place)), tell }
  try {
    for (let runs = random.int(1, 4); runs > 0; runs -= 1)
      await (random.chance(0.15) ? relapse(play) : oneRun(play))
    await quietEnd(play)
    for (const [what, times] of play.company.ledger.counts) count(play, what, times)
    return play.counts
  } finally {
    observeSteps(null)
    Math.random = drawn
    await play.sandbox.close()
    await rm(place, { recursive: true, force: true })
  }
}

/** Time passes, the company changes, and then somebody does something, in some networkFaults. */
async function oneRun(play: Play): Promise<void> {
  const { random, company } = play
  passTime(play)
  for (let changes = random.int(0, 8); changes > 0; changes -= 1) company.change()
  if (company.world.size > 30 && random.chance(0.2)) removeMost(play)
  const drawn = play.runs === 0 ? 'sync' : drawOperation(random)
  const operation = drawn === 'other key' && !isGuarded(play) ? 'sync' : drawn
  const undisturbed = operation === 'other key'
  const networkFaults = undisturbed
    ? CALM
    : drawNetworkFaults(random, random.chance(0.75) ? random.int(1, 9) : null)
  company.alterations = !undisturbed && random.chance(0.3) ? random.pick([0.02, 0.1, 0.3]) : 0
  company.changesPerAnswer = !undisturbed && random.chance(0.6) ? random.pick([0.1, 0.5, 2]) : 0
  await attempt(play, {
    operation,
    networkFaults,
    crashPoint: undisturbed ? null : drawCrashPoint(random),
    trusted: false,
  })
}

/** Some analyses cannot be read for once, and then are what they were; nothing else is new. */
async function relapse(play: Play): Promise<void> {
  Object.assign(play.company, { alterations: 0, changesPerAnswer: 0 })
  passTime(play)
  const broken: NetworkFaults = {
    plan: [{ fault: 'truncate', kinds: ['analysis'], probability: 0.3 }],
    losesAnswers: false,
  }
  // Soon after one another: an hour later there would be a new snapshot anyway.
  for (const networkFaults of [broken, CALM])
    await attempt(play, { operation: 'restart', networkFaults, crashPoint: null, trusted: false })
}

function isGuarded({ kept, settled }: Play): boolean {
  const live = [...(kept?.notices.values() ?? [])].filter(({ deleted }) => !deleted)
  return settled && live.length >= GUARDED_FROM
}

/** Minutes, hours or weeks; now and then the clock is put back. */
function passTime({ random, clock }: Play): void {
  const hours = random.weighted([
    [random.next(), 4],
    [random.int(1, 30), 4],
    [random.int(24, 24 * 40), 1],
    [-random.int(1, 50), 1],
  ])
  clock.now = new Date(clock.now.getTime() + hours * HOUR_MS)
}

function removeMost({ company, random }: Play): void {
  for (const id of random.sample(company.world.ids(), company.world.size - 5)) company.world.remove(id)
}
