import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { observeSteps } from '#src/lib/durable.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { attempt } from './attempt.ts'
import { drawCrashPoint, drawRemoteCrash } from './crash_point.ts'
import { lookBack, lookBefore, rememberPast } from './looks.ts'
import { CALM, drawNetworkFaults, type NetworkFaults } from './network_faults.ts'
import { drawOperation } from './operations.ts'
import { count, openPlay, type Play } from './play.ts'
import { quietEnd } from './quiet.ts'
import { drawStoreFaults, maybeVacuum } from './remote/attempt.ts'

const HOUR_MS = 3_600_000

/** From this many live notices on, another company's key is detected (`src/core/pipeline/missing.ts`). */
const GUARDED_FROM = 20

/**
 * Simulates the life of a warehouse from a seed: a company that changes between and during requests, network
 * faults, crash points of process and disk, and the operations of an operator. The oracle checks the state after
 * each run. At the end, without faults, the warehouse must match the company.
 * @param log receives lines that describe each run.
 * @returns the number of events by kind.
 * @throws Violation if an invariant does not hold.
 */
export async function simulate(
  seed: string,
  log: (line: string) => void = () => {},
): Promise<ReadonlyMap<string, number>> {
  const random = createRandom(`simulation ${seed}`)
  const place = await mkdtemp(join(tmpdir(), 'editais-sync-simulation-'))
  const drawn = Math.random
  // Backoff has jitter; the same seed must give the same jitter.
  Math.random = createRandom(`jitter ${seed}`).next
  const play = { ...(await openPlay(seed, random, place)), log }
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
    play.store?.close()
    await rm(place, { recursive: true, force: true })
  }
}

/** Time passes, the company changes, and then an operation runs with some network faults. */
async function oneRun(play: Play): Promise<void> {
  const { random, company } = play
  passTime(play)
  for (let changes = random.int(0, 8); changes > 0; changes -= 1) company.change()
  const isEmptied = company.world.size > 30 && random.chance(0.2)
  if (isEmptied) removeMost(play)
  await lookBefore(play)
  const drawn = play.runs === 0 ? 'sync' : drawOperation(random)
  const operation = drawn === 'other key' && !isGuarded(play) ? 'sync' : drawn
  // Faults may hide what the guards refuse.
  const undisturbed = operation === 'other key' || (isEmptied && random.chance(0.5))
  const networkFaults = undisturbed
    ? CALM
    : drawNetworkFaults(random, random.chance(0.75) ? random.int(1, 9) : null)
  company.alterations = !undisturbed && random.chance(0.3) ? random.pick([0.02, 0.1, 0.3]) : 0
  company.changesPerAnswer = !undisturbed && random.chance(0.6) ? random.pick([0.1, 0.5, 2]) : 0
  const crashPoint = undisturbed ? null : drawCrashPoint(random)
  const { store, storing } = play
  const remote = store && !undisturbed ? drawRemoteCrash(storing) : null
  await attempt(play, {
    operation,
    networkFaults,
    crashPoint: remote ?? crashPoint,
    trusted: false,
    storeFaults: store && !undisturbed ? drawStoreFaults(storing) : 'none',
  })
  await maybeVacuum(play)
  await lookBack(play)
  rememberPast(play)
}

/** Some analyses are truncated once, and are unchanged when read again; nothing else changes. */
async function relapse(play: Play): Promise<void> {
  Object.assign(play.company, { alterations: 0, changesPerAnswer: 0 })
  passTime(play)
  const broken: NetworkFaults = {
    plan: [{ fault: 'truncate', kinds: ['analysis'], probability: 0.3 }],
    losesAnswers: false,
  }
  // In quick succession: an hour later there would be a new snapshot anyway.
  for (const networkFaults of [broken, CALM])
    await attempt(play, { operation: 'restart', networkFaults, crashPoint: null, trusted: false })
}

function isGuarded({ kept, settled }: Play): boolean {
  const live = [...(kept?.notices.values() ?? [])].filter(({ deleted }) => !deleted)
  return settled && live.length >= GUARDED_FROM
}

/** Minutes, hours or weeks pass; sometimes the clock goes back. */
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
