import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { KEY } from './alter.ts'
import { SimulatedCompany } from './company.ts'
import { SimulatedDisk } from './disk.ts'
import { serialise } from './network_faults.ts'
import type { LocalSnapshots } from './remote/check.ts'
import { openStore, type SimulatedStore } from './remote/store.ts'
import type { Seen } from './snapshots.ts'
import type { Stored } from './stored.ts'

export const OTHER_KEY = 'edk_simulated_of_another_company_77'

/** The state of one simulation. */
export type Play = {
  readonly random: Random
  /** When and how the daemon looks. A sequence of its own, so that looks change nothing else. */
  readonly looking: Random
  /** What the company was after earlier runs. */
  readonly pasts: ReadonlyMap<string, Entry>[]
  /** How time passes during a run. */
  readonly ticking: Random
  /** How soon months are written. In half of the worlds as always: then a run writes none before its end. */
  readonly pace: Pick<CompanyContext, 'pace'>
  /** How the object store behaves, and who reads it when. */
  readonly storing: Random
  /** Null in most worlds. */
  readonly store: SimulatedStore | null
  readonly local: LocalSnapshots
  readonly company: SimulatedCompany
  readonly sandbox: Sandbox
  readonly paths: CompanyPaths
  readonly disk: SimulatedDisk
  readonly environment: Readonly<Record<string, string>>
  readonly clock: { now: Date }
  readonly seen: Seen
  /** Number of events by kind, for the summary. */
  readonly counts: Map<string, number>
  readonly log: (line: string) => void
  /** The last published state, which must never be lost. */
  kept: Stored | null
  /** Whether `kept` is the complete state: no run since then died or failed. */
  settled: boolean
  powerFailed: boolean
  runs: number
}

export async function openPlay(seed: string, random: Random, place: string): Promise<Omit<Play, 'log'>> {
  const clock = { now: new Date('2026-11-20T12:00:00Z') }
  const now = () => clock.now
  const notices = random.weighted([
    [random.int(1, 8), 5],
    [random.int(9, 24), 3],
    [random.int(25, 60), 2],
  ])
  // Separate streams: if one draws more or less, the others do not change.
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
  const store = await openStore(seed, place, now)
  return {
    random,
    looking: createRandom(`looks ${seed}`),
    pasts: [],
    ticking: of('clock'),
    pace: drawPace(createRandom(`pace ${seed}`)),
    storing: createRandom(`storing ${seed}`),
    store,
    local: new Map(),
    company,
    sandbox,
    paths,
    clock,
    environment: {
      API_BASE_URL: sandbox.url,
      API_KEY: KEY,
      DATA_DIR: dataDir,
      COMPANY: 'acme',
      API_RETRIES: '3',
      API_TIMEOUT_MS: '400',
      LOG_LEVEL: 'fatal',
      API_CONCURRENCY: String(random.pick([1, 2, 8])),
      SNAPSHOT_KEEP: random.pick(['0s', '1h', '24h']),
      ANALYSIS_MAX_AGE: random.pick(['off', '24h,30d', '1h']),
      ...(random.chance(0.15) ? { ANALYSIS_STATUSES: 'screening,analysis,pricing,ready' } : {}),
      ...store?.environment,
    },
    disk: new SimulatedDisk(paths.root, join(place, 'aside')),
    seen: new Map(),
    counts: new Map(),
    kept: null,
    settled: true,
    powerFailed: false,
    runs: 0,
  }
}

function drawPace(random: Random): Play['pace'] {
  if (random.chance(0.5)) return {}
  const pace = { documents: random.int(1, 4), rows: random.int(0, 4), latest: random.int(0, 2) }
  // Half of them make each segment durable while others are fetched.
  return { pace: random.chance(0.5) ? { ...pace, unsavedBytes: 0 } : pace }
}

/** Counts an event for the summary. */
export function count({ counts }: Play, what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times)
}
