import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { openOptions } from '#src/core/pipeline/run.ts'
import { listSealedSegments, readLines, segmentPath } from '#src/core/rawlog/files.ts'
import { rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { KEY } from './alter.ts'
import { assertHolds } from './assertions.ts'
import { attempt } from './attempt.ts'
import { drawCrashPoint, drawRemoteCrash } from './crash_point.ts'
import { lookBack, lookBefore, oneLook, rememberPast } from './looks.ts'
import { CALM, drawNetworkFaults, type NetworkFaults } from './network_faults.ts'
import { contextOf, drawOperation } from './operations.ts'
import * as oracle from './oracle.ts'
import { count, OTHER_KEY, openPlay, type Play } from './play.ts'
import { drawStoreFaults, maybeVacuum } from './remote/attempt.ts'
import { checkLatest } from './snapshots.ts'
import type { Stored } from './stored.ts'
import { checkSameTables, checkStoredMarts, countRuns, setWarehouseAside } from './tables.ts'

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
  const isEmptied = play.runs > 0 && company.world.size > 30 && random.chance(0.5)
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

/** Without faults and changes, the warehouse must become correct. */
async function quietEnd(play: Play): Promise<void> {
  const { company, clock, environment } = play
  Object.assign(company, { alterations: 0, changesPerAnswer: 0 })
  // Later than any earlier time, so that nothing waits for its next attempt.
  clock.now = new Date(clock.now.getTime() + 60 * 24 * HOUR_MS)
  const quiet: Play = { ...play, environment: { ...environment, API_TIMEOUT_MS: '20000' } }
  const excluded = environment.ANALYSIS_STATUSES?.split(',')
  const isExcluded = (status: string) => (excluded ? !excluded.includes(status) : false)
  // Old analyses are read again, including silent changes; if ANALYSIS_MAX_AGE is off, this takes a `--full`.
  const agesOut = environment.ANALYSIS_MAX_AGE !== 'off'
  for (const operation of agesOut ? (['sync'] as const) : (['sync', 'restart'] as const)) {
    const report = await attempt(quiet, { operation, networkFaults: CALM, crashPoint: null, trusted: true })
    assertHolds(report?.status === 'ok', () => `without faults, the run is not ok: ${JSON.stringify(report)}`)
    const silentChangesSeen = agesOut || operation === 'restart'
    oracle.checkTruth(quiet.kept as Stored, company.world, { isExcluded, silentChangesSeen })
  }
  await checkNothingToDo(quiet)
  await checkStoredMarts(checkLatest(quiet.paths, true) as Manifest)
  await checkLook(quiet)
  await checkRebuild(quiet)
  await checkSecret(quiet)
}

async function checkNothingToDo(play: Play): Promise<void> {
  const before = await readdir(join(play.paths.lake, 'snapshots'))
  const report = await attempt(play, {
    operation: 'sync',
    networkFaults: CALM,
    crashPoint: null,
    trusted: false,
  })
  const { listed, unchanged, deferred, added, changed, tombstoned } = report as RunReport
  assertHolds(
    unchanged + deferred === listed && added + changed + tombstoned === 0,
    () => `nothing changed, but the run reports ${JSON.stringify(report)}`,
  )
  const after = await readdir(join(play.paths.lake, 'snapshots'))
  assertHolds(
    after.every(name => before.includes(name)),
    () => `nothing changed, but there is a new snapshot: ${after}`,
  )
}

/** After a run that left nothing to do, a look replaces the next one; not if there is a new notice. */
async function checkLook(play: Play): Promise<void> {
  const found = await oneLook(play, { isSteady: true })
  assertHolds(!found.isNew, () => `nothing changed, but a look does not see it: ${JSON.stringify(found)}`)
  const [id] = play.company.world.ids()
  if (!id) return
  const entry = play.company.world.update(id, { edital: { objeto: 'Outro objeto' } })
  const { isNew } = await oneLook(play, { isSteady: true })
  assertHolds(isNew, () => `a look does not see that ${entry.edital.id} changed`)
}

/** I6: a rebuild from the log gives the same warehouse. */
async function checkRebuild(play: Play): Promise<void> {
  const { paths } = play
  const undisturbed = await setWarehouseAside(paths)
  const context = contextOf(play, play.environment, new AbortController().signal)
  const { db } = await rebuildWarehouse(openOptions(context))
  db.close()
  await checkSameTables(undisturbed, paths.warehouse)
  const directory = paths.raw
  const runs = new Set<string>()
  for (const number of await listSealedSegments(directory))
    for await (const line of readLines(segmentPath(directory, number)))
      runs.add((JSON.parse(line) as { run_id: string }).run_id)
  const stored = await countRuns(paths.warehouse)
  assertHolds(stored === runs.size, () => `the log has ${runs.size} runs, sync_runs has ${stored}`)
}

/** I7: the key is in no file. */
async function checkSecret({ paths }: Play): Promise<void> {
  for (const entry of await readdir(paths.root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const texts = [await readFile(path, 'latin1')]
    if (path.endsWith('.zst')) for await (const line of readLines(path)) texts.push(line)
    for (const key of [KEY, OTHER_KEY])
      assertHolds(!texts.some(text => text.includes(key)), () => `I7: a key is in ${path}`)
  }
}
