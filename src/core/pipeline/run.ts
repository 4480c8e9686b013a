import { join } from 'node:path'
import type { Settings } from '#config/settings.ts'
import { isGoodRun } from '#schema/sync_runs.ts'
import { type CompanyPaths, emptyTemporary, makeDirectories } from '#src/core/company/company.ts'
import {
  assertConserved,
  createReport,
  forgetFailure,
  measureSecondsSince,
  type Reported,
  type RunMode,
  type RunReport,
} from '#src/core/company/run_report.ts'
import { broughtNothing, readState, writeState } from '#src/core/company/state.ts'
import { readAccess } from '#src/core/lake/access.ts'
import type { Marts } from '#src/core/lake/catalog.ts'
import { type EarlyFile, writeEarly } from '#src/core/lake/export.ts'
import { type Prepared, type Published, publish } from '#src/core/lake/publish.ts'
import { listSealedSegments, measureRawLog, type RawLogSize, removeUnsealed } from '#src/core/rawlog/files.ts'
import type { Drift } from '#src/core/rawlog/line.ts'
import { type OuterLog, RawLogWriter } from '#src/core/rawlog/writer.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import {
  logName,
  openWarehouse,
  settleWarehouse,
  type Warehouse,
  type WarehouseOptions,
} from '#src/core/warehouse/warehouse.ts'
import { remove } from '#src/lib/durable.ts'
import { detectLeft } from './detect.ts'
import { type ShownList, type ShownPage, writeListIndex } from './list_index.ts'
import { createLoader, type Loader, PACE, type Pace } from './load.ts'
import { findMissingNotices, findUnlistedRecords } from './missing.ts'
import { decideRefetch, type InStage } from './request.ts'

/** Progress of a run; `total` is 0 while unknown. */
export type Progress = {
  readonly stage: 'open' | 'scan' | 'fetch' | 'load' | 'publish'
  readonly done: number
  readonly total: number
  readonly note?: string
}

/** The effects of a run, real or simulated. */
export type RunContext = {
  readonly paths: CompanyPaths
  readonly settings: Settings
  readonly now: () => Date
  /** Names this run; sorts by time. */
  readonly runId: string
  /** A name that no other run or warehouse has. */
  readonly newId: () => string
  /** Abort it to stop early: what was fetched is sealed, loaded and published. */
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
  readonly inStage: InStage
  /** A sentence for the operator. */
  readonly onNote: (text: string) => void
  readonly follower: Follower
  /** Loads the marts of the snapshots. */
  readonly loadMarts: () => Promise<Marts>
  /** The log that several hosts share; null if it is on this disk alone. */
  readonly sharedLog: HostsLog | null
  /** Replaces `PACE`, for tests with few notices. */
  readonly pace?: Pace
}

/** The log that several hosts share, as a run needs it. */
type HostsLog = OuterLog & {
  /** Whether the host before this one did not end: then the first segment must be sealed soon, so that it finds out. */
  readonly isTakeover: boolean
  /** Resolves once it is sure that no other host took the log over. A writer that was silent for long awaits it before it requests. */
  confirm(): Promise<boolean>
  /** Copies the beginning of the log to this disk, if only its end is there. */
  bringWhole(onSegment: (done: number, total: number) => void): Promise<void>
  /**
   * Makes a checkpoint for hosts whose disk is empty, if one is due.
   * @param close closes the warehouse.
   * @returns why it failed; null if it did not.
   */
  checkpoint(db: Database, close: () => void, now: Date): Promise<string | null>
}

/** A reader of the lake whose snapshots are kept, and who may be pointed to each new one. */
export type Follower = {
  /** Names of the snapshots that it may be reading. They are kept. */
  inUse(): Promise<readonly string[]>
  /** Returns whether it may still read an older snapshot: then a run is due even if nothing is new. */
  isBehind(): Promise<boolean>
  /** Follows the snapshot. Never throws: if it fails, the data is published anyway. */
  follow(snapshot: Published, run: Pick<RunContext, 'now' | 'signal'>): Promise<void>
}

export type Run = {
  readonly warehouse: Warehouse
  readonly loader: Loader
  /** Files of months that were written for the snapshot while analyses were fetched. */
  readonly early: readonly EarlyFile[]
  /** Its report as it begins: all counters are 0. */
  readonly begun: RunReport
}

export type RunResult = Reported & {
  readonly published: Published
  /** From start to end, including publishing; the report is written before publishing. */
  readonly seconds: number
}

/** Opens the files that a run writes to, and closes them after `work`. The caller holds the company's lock. */
export async function withRun<T>(
  context: RunContext,
  mode: RunMode,
  work: (run: Run) => Promise<T>,
): Promise<T> {
  const { paths, onProgress, inStage } = context
  const begun = createReport(context.runId, mode, context.now())
  const { warehouse, log } = await inStage('open', () => openFiles(context))
  let loaded = 0
  const onLoaded = (documents: number) => {
    loaded += documents
    onProgress({ stage: 'load', done: loaded, total: 0 })
  }
  const early: EarlyFile[] = []
  const onApplied = async () => void early.push(...(await writeMonths(context, warehouse)))
  const loader = createLoader({ log, ...warehouse, onLoaded, onApplied, inStage, pace: context.pace ?? PACE })
  try {
    const result = await work({ warehouse, loader, early, begun })
    await loader.idle()
    await makeCheckpoint(context, warehouse)
    return result
  } finally {
    await log.close()
    await loader.idle()
    warehouse.db.close()
    await remove('temporary.remove', paths.temporary)
  }
}

async function openFiles(context: RunContext): Promise<{ warehouse: Warehouse; log: RawLogWriter }> {
  const { paths, settings, now, runId, sharedLog: outer } = context
  await makeDirectories(paths, settings.lake)
  await emptyTemporary(paths)
  await removeUnsealed(paths.raw)
  const warehouse = await openWarehouse(openOptions(context))
  const firstNumber = (await listSealedSegments(paths.raw)).length + 1
  return { warehouse, log: new RawLogWriter({ directory: paths.raw, firstNumber, runId, now, outer }) }
}

/**
 * Writes months that seem complete. That this fails, as on a full disk, is no failure of the run: its end writes them, or says why
 * it cannot.
 * @returns their files for the snapshot.
 */
async function writeMonths(
  { paths: { lake, company, temporary }, pace = PACE }: RunContext,
  { db, rows }: Warehouse,
): Promise<EarlyFile[]> {
  try {
    const months = await rows.writeComplete(pace.rows, pace.latest)
    if (months.length === 0) return []
    const directory = join(temporary, 'early')
    return await writeEarly(db, months, { directory, company, access: await readAccess(lake) })
  } catch {
    return []
  }
}

/** Makes a checkpoint, for hosts whose disk is empty. A failed checkpoint does not fail the run; the next run retries it. */
async function makeCheckpoint(
  { sharedLog, now, onNote, signal, inStage }: RunContext,
  { db }: Warehouse,
): Promise<void> {
  if (signal.aborted || sharedLog === null) return
  const make = () => sharedLog.checkpoint(db, () => db.close(), now())
  const failed = await inStage('checkpoint', make, reason => reason)
  if (failed) onNote(`No checkpoint was made. ${failed}`)
}

/** How a run ends. */
type Ending = {
  /** Makes its report, from what could be loaded so far. */
  readonly compose: () => Reported
  /** Where the list's envelope differs from the contract. */
  readonly drift?: readonly Drift[]
  /** The list, if it was read as a whole. */
  readonly shown?: ShownList | null
}

/** Ends a run: adds its report to the log and the warehouse, then publishes the lake. */
export async function finishRun(
  { warehouse, loader, early }: Run,
  context: RunContext,
  { compose, drift = [], shown = null }: Ending,
): Promise<RunResult> {
  const record = async (more: { drift?: readonly Drift[] } = {}): Promise<Reported> => {
    const { report, causes } = compose()
    const finished = { ...report, finished_at: context.now().toISOString() }
    assertConserved(finished)
    await loader.append({ type: 'run_finished', report: finished, ...more })
    await loader.settle()
    return { report: finished, causes }
  }
  const before = loader.poisoned.length
  const first = await record(drift.length > 0 ? { drift } : {})
  // The last segment has the report, and what it cannot load is known only now.
  const { report, causes } = loader.poisoned.length > before ? await record() : first
  const published = await settleWarehouse(warehouse, async durable => {
    context.onProgress({ stage: 'publish', done: 0, total: 0 })
    return await context.inStage('publish', () => publishLake(context, warehouse, { early, durable }))
  })
  const { segments } = await rememberRun({ report, causes }, warehouse, context, published)
  if (shown !== null) await leaveIndex(context, warehouse, { report, shown, segments })
  // Last: whatever it does, the run is over.
  await lead(context, published)
  return { report, causes, published, seconds: measureSecondsSince(report, context) }
}

/** Writes the run to the state: a run that changed nothing is not published at once, and readers cannot open the warehouse. */
async function rememberRun(
  { report, causes }: Reported,
  warehouse: Warehouse,
  { paths }: RunContext,
  published: Published,
): Promise<RawLogSize> {
  const before = await readState(paths)
  const { open } = await warehouse.db.row<{ open: number }>(
    'SELECT count(*)::INTEGER AS open FROM quarantine WHERE resolved_at IS NULL',
  )
  const raw_log = await measureRawLog(paths.raw, before?.raw_log)
  await writeState(paths, {
    last_run: report,
    causes: [...causes],
    last_good_at: isGoodRun(report) ? report.finished_at : (before?.last_good_at ?? null),
    quarantined: open,
    quarantined_before: before?.quarantined ?? 0,
    log: await logName(warehouse),
    raw_log,
    snapshot: { directory: published.directory, bytes: published.bytes },
  })
  if (!broughtNothing(report)) await forgetFailure(paths)
  return raw_log
}

type Publishing = Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal' | 'follower' | 'loadMarts'>

/** Publishes the warehouse to the lake, then points the follower to the new snapshot. */
export async function publishWarehouse(
  context: Publishing,
  warehouse: Pick<Warehouse, 'db' | 'rows'>,
): Promise<Published> {
  const published = await publishLake(context, warehouse)
  await lead(context, published)
  return published
}

async function publishLake(
  { paths, settings, now, follower, ...context }: Publishing,
  { db, rows }: Pick<Warehouse, 'db' | 'rows'>,
  prepared: Partial<Prepared> = {},
): Promise<Published> {
  const { company, lake } = paths
  const { snapshotKeepMs: keepMs, sourceTimezone, martFiles, remoteLake } = settings
  const martsWanted = martFiles ? 'files' : remoteLake ? 'daily' : 'none'
  const inUse = await follower.inUse()
  const marts = await context.loadMarts()
  const about = { lake, company, keepMs, sourceTimezone, inUse }
  return await publish({ db, rows, now: now(), ...about, marts, martsWanted, ...prepared })
}

async function lead({ follower, now, signal }: Publishing, published: Published): Promise<void> {
  await follower.follow(published, { now, signal })
}

export function openOptions(context: RunContext): WarehouseOptions {
  const { paths, settings, newId, signal, sharedLog, onProgress } = context
  return {
    paths,
    sourceTimezone: settings.sourceTimezone,
    newId,
    signal,
    bringWholeLog: async () => {
      const note = 'Earlier segments from the object store'
      await sharedLog?.bringWhole((done, total) => onProgress({ stage: 'open', done, total, note }))
    },
    unsavedBytes: context.pace?.unsavedBytes,
    onApply: ({ reason, done, total }) => {
      const note = reason === 'rebuild' ? 'Rebuild from the raw log' : 'Apply segments from an earlier run'
      onProgress({ stage: 'open', done, total, note })
    },
  }
}

/** The daemon reads the index of every company, 50 bytes a notice; a larger company gets only runs, which read its whole list. */
const MAX_INDEXED = 100_000

/** The request of an ordinary run. */
export const NEXT = { full: false, restart: false, statuses: null, ids: null, allowMassDelete: false }

/** The input of a run that leaves an index: a list that was whole in one pass, and everything stored. */
type Leaving = {
  readonly report: RunReport
  readonly shown: ShownList
  readonly segments: number
}

/**
 * Writes the index that lets looks replace the next runs, and lets these read less, if the run was ok and the next one would find
 * nothing to do. The same statements decide that, on the table `listed` and what the run made of it.
 */
async function leaveIndex(
  context: Pick<RunContext, 'paths' | 'settings' | 'now'>,
  { db }: Pick<Warehouse, 'db'>,
  { report, shown, segments }: Leaving,
): Promise<void> {
  if (report.status !== 'ok' || !isUsable(shown.pages)) return
  const { analysisStatuses, analysisMaxAge } = context.settings
  const now = context.now()
  const { segment: refetchSegment } = await decideRefetch(NEXT, { db })
  const left = await detectLeft({ db, now, analysisStatuses, analysisMaxAge, refetchSegment, force: false })
  if (left.toDo + (await findMissingNotices(db)).length + (await findUnlistedRecords(db)).length > 0) return
  const { listed, deferred, dueAt } = left
  const index = {
    run_id: report.run_id,
    log: await logName({ db }),
    made_at: now.toISOString(),
    due_at: dueAt?.toISOString() ?? null,
    listed,
    deferred,
    ...shown,
  }
  await writeListIndex(context, index, segments)
}

/** Returns false if there are too many notices, or two pages show one differently: it changed while the list was read. */
function isUsable(pages: readonly ShownPage[]): boolean {
  const shown = new Map<string, string>()
  for (const { notices } of pages) {
    for (const [key, fingerprint] of notices) {
      if ((shown.get(key) ?? fingerprint) !== fingerprint) return false
      shown.set(key, fingerprint)
    }
  }
  return shown.size <= MAX_INDEXED
}
