import { randomBytes } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { measureRawLog } from '#src/core/rawlog/files.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { showRows } from '#src/core/warehouse/row_files.ts'
import { filesOf } from '../company/files.ts'
import { type Place, pathsOf, placeOf } from '../company/place.ts'
import { runsAmiss, wrongNotices } from '../company/truth.ts'
import { sum } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { type Callee, startCallee } from '../processes/calls.ts'
import { complaints, FAIR, isConserved, type NetworkFaults, networkFaultsAt } from './network_faults.ts'
import type { Ran, Rebuilt, RunCalls } from './runs_process.ts'
import type { WorldCalls, WorldOptions } from './world_process.ts'

export const DAY_HOURS = 24
const HOUR_MS = 3_600_000
/** In the middle of a month, so that a new month begins during the simulation. */
const START = Date.parse('2026-09-15T00:00:00Z')
/**
 * A world of 5,000 notices has 1,840 from its last 30 days: two and a half an hour. A tick adds half a notice
 * on average, so five ticks an hour continue at that rate. They also change about ten notices an hour.
 */
const NOTICES_FOR_A_TICK = 1000

/** One run, and the state after it. */
export type Hour = Omit<Ran, 'report'> &
  Pick<RunReport, 'run_id' | 'status' | 'listed' | 'loaded'> & {
    readonly hour: number
    readonly networkFaults: NetworkFaults['name']
    /** Changes in the world before it. */
    readonly changes: number
    readonly conserved: boolean
    /** Unexpected values in its report. */
    readonly complaints: readonly string[]
  }

export type Day = Disk & { readonly hour: number }

export type Measured = {
  /** The first run, in its own process: its memory must not hide a leak of the others. */
  readonly first: Hour & { readonly segments: number }
  readonly hours: readonly Hour[]
  /** At the end of each day; the last day may be partial. */
  readonly days: readonly Day[]
  /** The run at the end, without faults, that fetches everything again. */
  readonly full: Hour
  /** At the end. */
  readonly notices: number
  readonly wrongNotices: number
  /** Runs without exactly one row in `sync_runs`, and rows without a run. */
  readonly runsAmiss: number
  readonly rebuilt: Rebuilt
}

export type MonthOptions = { readonly notices: number; readonly hours: number; readonly seed: string }

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const instant = (hour: number) => new Date(START + hour * HOUR_MS).toISOString()

/**
 * A first sync, a run for each simulated hour, and a full one. Then everything is compared with the world, and
 * the warehouse is rebuilt from its log.
 * @throws Error if a run did not finish.
 */
export async function measureMonth(bench: Bench, options: MonthOptions): Promise<Measured> {
  const { notices, hours, seed } = options
  bench.step('generating the world')
  const about: WorldOptions = { notices, seed, apiKey: randomBytes(16).toString('hex'), start: instant(0) }
  const world = await startCallee<WorldCalls>(here('world_process.ts'), about)
  const api = { slug: 'bench', apiKey: about.apiKey, url: await world.call('url') }
  const place = await placeOf(bench.directory, api)
  const paths = pathsOf(place)
  bench.step('first sync')
  const first = await withRuns(place, runs => runOnce({ world, runs }, { hour: 0, full: false }))
  const { segments } = await measureRawLog(paths.raw)
  const all = await withRuns(place, async runs => {
    const month = await live(bench, options, { world, runs, place })
    bench.step('full run')
    const full = await runOnce({ world, runs }, { hour: hours + 1, full: true })
    bench.step('comparing with the world')
    const facts = await world.call('facts')
    const wrong = await wrongNotices(paths.lake, facts)
    const amiss = await runsAmiss(paths.lake, [first, ...month.hours, full])
    bench.step('rebuilding')
    const rebuilt = await runs.call('rebuild', { at: instant(hours + 2) })
    return {
      ...{ ...month, full, rebuilt },
      notices: facts.length,
      wrongNotices: wrong.length,
      runsAmiss: amiss.length,
    }
  })
  await world.close()
  return { first: { ...first, segments }, ...all }
}

type Both = { readonly world: Callee<WorldCalls>; readonly runs: Callee<RunCalls> }

async function withRuns<T>(place: Place, work: (runs: Both['runs']) => Promise<T>): Promise<T> {
  const runs = await startCallee<RunCalls>(here('runs_process.ts'), place.env)
  const done = await work(runs)
  await runs.close()
  return done
}

async function live(
  bench: Bench,
  { notices, hours, seed }: MonthOptions,
  both: Both & { readonly place: Place },
): Promise<Pick<Measured, 'hours' | 'days'>> {
  const ticks = Math.max(1, Math.round(notices / NOTICES_FOR_A_TICK))
  const runs: Hour[] = []
  const days: Day[] = []
  for (let hour = 1; hour <= hours; hour += 1) {
    const run = await runOnce(both, { hour, full: false, ticks, networkFaults: networkFaultsAt(seed, hour) })
    runs.push(run)
    if (hour % DAY_HOURS > 0 && hour < hours) continue
    days.push({ hour, ...(await measureDisk(pathsOf(both.place))) })
    const megabytes = Math.round(run.rssBytes / 1e6)
    bench.step(`${hour} of ${hours} hours; ${megabytes} MB, ${run.wallSeconds.toFixed(1)} s a run`)
  }
  return { hours: runs, days }
}

/** Advances the world by some ticks, then makes a run. */
async function runOnce(
  { world, runs }: Both,
  about: { hour: number; full: boolean; ticks?: number; networkFaults?: NetworkFaults },
): Promise<Hour> {
  const { hour, full, ticks = 0, networkFaults = FAIR } = about
  const at = instant(hour)
  const { notices, changes } = await world.call('pass', { at, ticks, faults: networkFaults.faults })
  const { report, ...ran } = await runs.call('run', { at, full })
  const requests = await world.call('counted')
  const { run_id, status, listed, loaded } = report
  return {
    ...{ hour, run_id, status, listed, loaded, changes, ...ran },
    networkFaults: networkFaults.name,
    conserved: isConserved(report),
    complaints: complaints(report, { networkFaults, notices, requests }),
  }
}

/** Disk usage of a company in bytes. */
type Disk = {
  readonly segments: number
  readonly rawBytes: number
  readonly warehouseBytes: number
  /** Of these, blocks that no row uses any more and DuckDB reuses first. */
  readonly warehouseFreeBytes: number
  readonly snapshots: number
  /** Of all files of all snapshots; a shared file counts once. */
  readonly snapshotBytes: number
  /** Of the latest snapshot. */
  readonly latestBytes: number
  /** Rows of `sync_runs`. */
  readonly runs: number
}

/** Expects no writer at the same time. */
async function measureDisk(paths: CompanyPaths): Promise<Disk> {
  const raw = await measureRawLog(paths.raw)
  const snapshots = (await readdir(snapshotsDirectory(paths.lake))).sort()
  const sizes = new Map<string, number>()
  let latestBytes = 0
  for (const name of snapshots) {
    const files = await filesOf(join(snapshotsDirectory(paths.lake), name))
    latestBytes = sum(files.map(({ bytes }) => bytes))
    for (const { inode, bytes } of files) sizes.set(inode, bytes)
  }
  return {
    segments: raw.segments,
    rawBytes: raw.bytes,
    ...(await measureWarehouse(paths)),
    snapshots: snapshots.length,
    latestBytes,
    snapshotBytes: sum([...sizes.values()]),
  }
}

async function measureWarehouse({ warehouse, rows }: CompanyPaths) {
  const db = await Database.open(warehouse, { readOnly: true, threads: 1 })
  try {
    await showRows(db, rows)
    const { free, runs } = await db.row<{ free: number; runs: number }>(
      'SELECT block_size * free_blocks AS free, (SELECT count(*) FROM sync_runs) AS runs FROM pragma_database_size()',
    )
    return { warehouseBytes: (await stat(warehouse)).size, warehouseFreeBytes: free, runs }
  } finally {
    db.close()
  }
}
