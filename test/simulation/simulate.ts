import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApi } from '#src/api/client.ts'
import { type CompanyPaths, companyPaths } from '#src/company.ts'
import { observeSteps } from '#src/durable.ts'
import { EXIT, explain, FatalError } from '#src/errors.ts'
import { holdingCompany } from '#src/open.ts'
import { sealedSegments, segmentPath } from '#src/rawlog/files.ts'
import { readLines } from '#src/rawlog/read.ts'
import { replay } from '#src/replay.ts'
import type { RunReport } from '#src/report.ts'
import { openOptions, publishWarehouse, type RunContext } from '#src/run.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { type SyncRequest, sync } from '#src/sync.ts'
import { openWarehouse, rebuildWarehouse } from '#src/warehouse/warehouse.ts'
import { KEY } from './alter.ts'
import { beginRun, SimulatedCompany } from './company.ts'
import { SimulatedDisk } from './disk.ts'
import { drawFate, type Fate, type Watch, watch } from './fate.ts'
import * as oracle from './oracle.ts'
import { drawWeather, serialise, type Weather } from './weather.ts'

const OTHER_KEY = 'edk_simulated_of_another_company_77'
const HOUR_MS = 3_600_000
/** A run sleeps for nothing in the real world, so one that takes longer hangs. */
const MAX_RUN_MS = 60_000
/** With so many live notices another company's key is recognised (`src/missing.ts`). */
const GUARDED_FROM = 20

/** Everything of one seeded run. */
type Play = {
  readonly random: Random
  /** How time goes on while a run works. */
  readonly ticking: Random
  readonly company: SimulatedCompany
  readonly sandbox: Sandbox
  readonly paths: CompanyPaths
  readonly disk: SimulatedDisk
  readonly environment: Readonly<Record<string, string>>
  readonly clock: { now: Date }
  readonly seen: oracle.Seen
  /** How often what happened, for the summary. */
  readonly counts: Map<string, number>
  readonly tell: (line: string) => void
  /** What was published last, and so must never be lost. */
  kept: oracle.Stored | null
  /** Whether `kept` is all that there is: no run since died or failed half-way. */
  settled: boolean
  powerFailed: boolean
  runs: number
}

type Deed = 'sync' | 'full' | 'restart' | 'statuses' | 'ids' | 'replay' | 'publish' | 'rebuild' | 'other key'

/**
 * One life of a warehouse, out of a seed: a company that changes between and during the requests, an API that
 * fails, a disk that fails, a process that dies, an operator. After each run the oracle looks at what there is,
 * and at the end, when all is well again, whether it is the truth.
 * @param tell is told of each run, for whoever wants to follow.
 * @returns how often what happened.
 * @throws oracle.Violation of an invariant.
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
    for (let runs = random.int(1, 4); runs > 0; runs -= 1) await oneRun(play)
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

async function openPlay(random: Random, place: string): Promise<Omit<Play, 'tell'>> {
  const clock = { now: new Date('2026-11-20T12:00:00Z') }
  const now = () => clock.now
  const notices = random.weighted([
    [random.int(1, 8), 5],
    [random.int(9, 24), 3],
    [random.int(25, 60), 2],
  ])
  // Streams of their own: what one of them draws more or less does not move the others.
  const of = (what: string) => createRandom(`${what} ${random.hex(16)}`)
  const company = new SimulatedCompany({ random: of('company'), now, notices, prefix: 'n' })
  const other = new SimulatedCompany({ random: of('other'), now, notices: 3, prefix: 'x' })
  const sandbox = await startSandbox({
    companies: [
      { slug: 'acme', key: KEY, world: company },
      { slug: 'other', key: OTHER_KEY, world: other },
    ],
    seed: random.hex(8),
  })
  serialise(sandbox.faults, of('order'))
  const dataDir = join(place, 'data')
  await mkdir(dataDir)
  const paths = companyPaths(dataDir, 'acme')
  return {
    ...{ random, ticking: of('clock'), company, sandbox, paths, clock },
    environment: {
      ...{ API_BASE_URL: sandbox.url, API_KEY: KEY, DATA_DIR: dataDir, COMPANY: 'acme' },
      ...{ API_RETRIES: '3', API_RETRY_MS: '1', API_TIMEOUT_MS: '400', LOG_LEVEL: 'fatal' },
      API_CONCURRENCY: String(random.pick([1, 2, 8])),
      SNAPSHOT_KEEP: random.pick(['0s', '1h', '24h']),
      ANALYSIS_MAX_AGE: random.pick(['off', '24h,30d', '1h']),
      ...(random.chance(0.15) ? { ANALYSIS_STATUSES: 'screening,analysis,pricing,ready' } : {}),
    },
    disk: new SimulatedDisk(paths.root, join(place, 'aside')),
    ...{ seen: new Map(), counts: new Map(), kept: null, settled: true, powerFailed: false, runs: 0 },
  }
}

/** Time passes, the company changes, and then somebody does something, in some weather. */
async function oneRun(play: Play): Promise<void> {
  const { random, company } = play
  passTime(play)
  for (let changes = random.int(0, 8); changes > 0; changes -= 1) company.change()
  if (company.world.size > 30 && random.chance(0.2)) removeMost(play)
  const drawn = play.runs === 0 ? 'sync' : drawDeed(random)
  const deed = drawn === 'other key' && !isGuarded(play) ? 'sync' : drawn
  const undisturbed = deed === 'other key'
  const weather = undisturbed ? CALM : drawWeather(random, random.chance(0.75) ? random.int(1, 9) : null)
  company.alterations = !undisturbed && random.chance(0.3) ? random.pick([0.02, 0.1, 0.3]) : 0
  company.changesPerAnswer = !undisturbed && random.chance(0.6) ? random.pick([0.1, 0.5, 2]) : 0
  await attempt(play, { deed, weather, fate: undisturbed ? null : drawFate(random), trusted: false })
}

const CALM: Weather = { plan: [], losesAnswers: false }

function drawDeed(random: Random): Deed {
  return random.weighted<Deed>([
    ['sync', 12],
    ['full', 3],
    ['restart', 1],
    ['statuses', 1],
    ['ids', 1],
    ['replay', 1],
    ['publish', 0.5],
    ['rebuild', 1],
    ['other key', 2],
  ])
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

type Attempt = {
  readonly deed: Deed
  readonly weather: Weather
  readonly fate: Fate | null
  readonly trusted: boolean
}

/** One run of the real program, and what the oracle says to what it left. */
async function attempt(play: Play, { deed, weather, fate, trusted }: Attempt): Promise<RunReport | null> {
  const { sandbox, company, paths, kept } = play
  play.runs += 1
  count(play, `deed: ${deed}`)
  beginRun(company.ledger, play.settled)
  const staying = oracle.latestOf(paths)
  sandbox.requests.reset()
  sandbox.faults.plan = [...weather.plan]
  const controller = new AbortController()
  const watched = watch({
    ...{ fate, disk: play.disk, paths, random: play.random },
    interrupt: () => controller.abort(),
    check: () => oracle.checkLatest(paths, kept !== null),
  })
  play.tell(describeAttempt(play, { deed, weather, fate, trusted }))
  const { report, error } = await inTime(perform(play, deed, { signal: controller.signal, trusted }), deed)
  observeSteps(null)
  play.tell(`    ${watched.struck ? `struck; ` : ''}${error ? String(error) : JSON.stringify(report)}`)
  countSteps(play, watched, fate)
  if (watched.wrong) throw watched.wrong
  if (watched.copy) await fallBack(paths, watched.copy)
  if (error) checkError(error, deed, watched.struck ? fate : null)
  play.powerFailed ||= watched.copy !== null && fate?.kind === 'power fails'
  oracle.checkImmutable(paths, play.seen, play.powerFailed)
  for (const name of watched.copy ? [] : staying)
    oracle.must(
      existsSync(join(paths.lake, 'snapshots', name)),
      () => `I5: snapshot ${name} was removed too early`,
    )
  if (existsSync(paths.raw)) await oracle.checkDurableFirst(paths, kept !== null)
  if (error || watched.copy) {
    play.settled = false
    return null
  }
  const stored = await oracle.readStored(paths)
  oracle.checkJustified(stored, company.ledger)
  oracle.checkKept(kept, stored)
  const { settled } = play
  oracle.checkDeleted(kept, stored, company.ledger, { ...weather, trusted, settled })
  if (report) checkRun(play, { deed, report, stored, weather })
  play.kept = stored
  play.settled = true
  return report
}

function describeAttempt({ runs, clock, company }: Play, { deed, weather, fate }: Attempt): string {
  const faults = weather.plan.map(({ fault, kinds }) => `${fault} ${kinds ?? ''}`)
  const what = fate ? `${fate.kind} ${fate.when} ${fate.step} (${fate.nth})` : 'nothing happens'
  return `${runs}. ${clock.now.toISOString()} ${company.world.size} notices: ${deed}; ${what}; ${faults.join(', ') || 'calm'}`
}

type Finished = {
  readonly deed: Deed
  readonly report: RunReport
  readonly stored: oracle.Stored
  readonly weather: Weather
}

function checkRun(play: Play, { deed, report, stored, weather }: Finished): void {
  const { sandbox, company, environment, kept } = play
  const { total: requests, peakConcurrent } = sandbox.requests
  count(play, `run: ${report.status}`)
  oracle.checkReport(
    report,
    { requests, peakConcurrent },
    { concurrency: Number(environment.API_CONCURRENCY), retries: Number(environment.API_RETRIES) },
  )
  if (deed === 'other key') oracle.checkUntouched(kept, stored, report)
  if (report.status === 'interrupted' || report.status === 'failed') return
  oracle.must(
    report.requests === requests,
    () => `the report says ${report.requests} requests, the server had ${requests}`,
  )
  if (deed === 'replay') return
  oracle.checkNothingPending(stored, report)
  if (deed === 'restart') oracle.checkRefetched(stored, company.ledger, report)
  const isWhole = !weather.losesAnswers && report.mode !== 'filtered'
  if (isWhole) oracle.checkFresh(stored, company.ledger)
  // What is shown broken, or twice, has no single outcome to count.
  if (isWhole && play.settled && company.alterations === 0 && report.status === 'ok')
    oracle.checkCounts(kept, stored, company.ledger, report)
}

/** A run ends with an error only where something befell it, and then with one that says so. */
function checkError(error: unknown, deed: Deed, fate: Fate | null): void {
  const said = explained(error)
  const isItsOwn =
    fate?.kind === 'killed' ||
    fate?.kind === 'power fails' ||
    (fate?.kind === 'interrupted' && explain(error).exitCode === EXIT.interrupted) ||
    (fate?.kind.startsWith('disk') && /ENOSPC|EIO|disk is full/.test(said))
  oracle.must(isItsOwn === true, () => `${deed} ended with: ${said}`)
}

type Ended = { readonly report: RunReport | null; readonly error: unknown }

/** A run that never ends is as wrong as one that lies. */
async function inTime(running: Promise<RunReport | null>, deed: Deed): Promise<Ended> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new oracle.Violation(`${deed} did not end within ${MAX_RUN_MS} ms`)),
    MAX_RUN_MS,
  )
  try {
    return await Promise.race([
      running.then(
        report => ({ report, error: null }),
        (error: unknown) => ({ report: null, error }),
      ),
      late.promise,
    ])
  } finally {
    clearTimeout(timer)
  }
}

/** What an operator would read. */
function explained(error: unknown): string {
  return `${explain(error).message} ${error instanceof Error ? error.stack : ''}`
}

/** The process died: what it left is what the next one finds. */
async function fallBack({ root }: CompanyPaths, copy: string): Promise<void> {
  await rm(root, { recursive: true, force: true })
  await rename(copy, root)
}

/** @returns the report, where the deed has one. */
async function perform(
  play: Play,
  deed: Deed,
  { signal, trusted }: { signal: AbortSignal; trusted: boolean },
): Promise<RunReport | null> {
  const environment = deed === 'other key' ? { ...play.environment, API_KEY: OTHER_KEY } : play.environment
  const context = contextOf(play, environment, signal)
  return await holdingCompany(context, SILENT, { what: deed, waitSeconds: 0 }, async () => {
    // The other one waits a little for the lock, so not each time.
    if (play.random.chance(0.15)) await checkHeld(context)
    if (deed === 'publish' || deed === 'rebuild') {
      const open = deed === 'publish' ? openWarehouse : rebuildWarehouse
      const warehouse = await open(openOptions(context))
      await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
      return null
    }
    if (deed === 'replay') return (await replay(context)).report
    const api = createApi({ ...readApiSettings(environment), signal, nowMs: Date.now })
    try {
      return (await sync(requestOf(play, deed, trusted), { ...context, api })).report
    } finally {
      await api.close()
    }
  })
}

const SILENT = { progress() {}, note() {} }

/** I8: nobody else gets the company meanwhile. */
async function checkHeld(context: RunContext): Promise<void> {
  const refused = await holdingCompany(
    context,
    SILENT,
    { what: 'another', waitSeconds: 0 },
    async () => null,
  ).catch(error => error)
  oracle.must(
    refused instanceof FatalError && refused.exitCode === EXIT.held,
    () => 'I8: a second process got the company while the first one holds it',
  )
}

function contextOf(
  play: Play,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
): RunContext {
  const { ticking, clock, paths } = play
  let names = 0
  const newId = () => `${clock.now.toISOString()}-${play.runs}-${names++}`
  return {
    paths,
    settings: readSettings(environment),
    // Time goes on while a run works; a slow minute seals a segment early.
    now: () => {
      clock.now = new Date(clock.now.getTime() + (ticking.chance(0.01) ? 61_000 : ticking.int(0, 20)))
      return clock.now
    },
    runId: newId(),
    newId,
    signal,
    onProgress: () => {},
  }
}

function requestOf({ random, company }: Play, deed: Deed, trusted: boolean): SyncRequest {
  const ids = [...random.sample(company.world.ids(), 3), ...random.sample(company.world.removedIds(), 1)]
  return {
    full: deed === 'full' || deed === 'restart',
    restart: deed === 'restart',
    statuses: deed === 'statuses' ? ['analysis', 'pricing'] : null,
    ids: deed === 'ids' ? ids : null,
    allowMassDelete: trusted,
  }
}

/** Nothing is wrong any more, nothing changes: now the warehouse must be right. */
async function quietEnd(play: Play): Promise<void> {
  const { company, clock, environment } = play
  Object.assign(company, { alterations: 0, changesPerAnswer: 0 })
  // Later than any clock was, so that nothing waits for its next attempt.
  clock.now = new Date(clock.now.getTime() + 60 * 24 * HOUR_MS)
  const quiet: Play = { ...play, environment: { ...environment, API_TIMEOUT_MS: '20000' } }
  const excluded = environment.ANALYSIS_STATUSES?.split(',')
  const isExcluded = (status: string) => (excluded ? !excluded.includes(status) : false)
  // All that is old enough is read again, and so what changed silently; only where that is off it takes a `--full`.
  const agesOut = environment.ANALYSIS_MAX_AGE !== 'off'
  for (const deed of agesOut ? (['sync'] as const) : (['sync', 'restart'] as const)) {
    const report = await attempt(quiet, { deed, weather: CALM, fate: null, trusted: true })
    oracle.must(report?.status === 'ok', () => `with nothing wrong, the run is ${JSON.stringify(report)}`)
    const silentChangesSeen = agesOut || deed === 'restart'
    oracle.checkTruth(quiet.kept as oracle.Stored, company.world, { isExcluded, silentChangesSeen })
  }
  await checkNothingToDo(quiet)
  await checkRebuild(quiet)
  await checkSecret(quiet)
}

async function checkNothingToDo(play: Play): Promise<void> {
  const before = await readdir(join(play.paths.lake, 'snapshots'))
  const report = await attempt(play, { deed: 'sync', weather: CALM, fate: null, trusted: false })
  const { listed, unchanged, deferred, added, changed, tombstoned } = report as RunReport
  oracle.must(
    unchanged + deferred === listed && added + changed + tombstoned === 0,
    () => `nothing changed, but the run says ${JSON.stringify(report)}`,
  )
  const after = await readdir(join(play.paths.lake, 'snapshots'))
  oracle.must(
    after.every(name => before.includes(name)),
    () => `nothing changed, but there is a new snapshot: ${after}`,
  )
}

/** I6: the log alone gives the same warehouse. */
async function checkRebuild(play: Play): Promise<void> {
  const { paths } = play
  const undisturbed = `${paths.warehouse}.before`
  await rename(paths.warehouse, undisturbed)
  const context = contextOf(play, play.environment, new AbortController().signal)
  const { db } = await rebuildWarehouse(openOptions(context))
  db.close()
  await oracle.checkSameTables(undisturbed, paths.warehouse)
  const directory = paths.raw
  const runs = new Set<string>()
  for (const number of await sealedSegments(directory))
    for await (const line of readLines(segmentPath(directory, number)))
      runs.add((JSON.parse(line) as { run_id: string }).run_id)
  const stored = await oracle.countRuns(paths.warehouse)
  oracle.must(stored === runs.size, () => `the log tells of ${runs.size} runs, sync_runs of ${stored}`)
}

/** I7: the key is in no file. */
async function checkSecret({ paths }: Play): Promise<void> {
  for (const entry of await readdir(paths.root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const texts = [await readFile(path, 'latin1')]
    if (path.endsWith('.zst')) for await (const line of readLines(path)) texts.push(line)
    for (const key of [KEY, OTHER_KEY])
      oracle.must(!texts.some(text => text.includes(key)), () => `I7: a key is in ${path}`)
  }
}

function countSteps(play: Play, { steps, struck }: Watch, fate: Fate | null): void {
  if (struck && fate) count(play, `fate: ${fate.kind} ${fate.when} ${fate.step}`)
  for (const [step, times] of steps) count(play, `step: ${step}`, times)
}

function count({ counts }: Play, what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times)
}
