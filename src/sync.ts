import { join } from 'node:path'
import type { Drift } from '#src/store/rawlog/line.ts'
import type { Api } from './api/client/client.ts'
import { detect, type ListedRecord, type Plan, readPlan, type Work } from './pipeline/detect.ts'
import { type Fetched, fetchAnalyses } from './pipeline/fetch.ts'
import { ListedFile, stageListed } from './pipeline/listed.ts'
import type { Loader } from './pipeline/load.ts'
import {
  isAnotherCompany,
  isForeignKey,
  type Missing,
  unlistedRecords,
  verifyMissing,
} from './pipeline/missing.ts'
import { finishRun, type Run, type RunContext, type RunResult, withRun } from './pipeline/run.ts'
import { readByIds, type Scan, scan } from './pipeline/scan.ts'
import { counted, formatCount } from './platform/count.ts'
import { EXIT, FatalError, RequestError, throwIfInterrupted } from './platform/errors.ts'
import type { Line } from './store/rawlog/line.ts'
import { type RunReport, statusOfExit, worsen } from './store/run_report.ts'
import { logName, type Warehouse } from './store/warehouse/warehouse.ts'

export type SyncRequest = {
  /** Fetch every analysis again, resuming an unfinished `--full` unless `restart`. */
  readonly full: boolean
  readonly restart: boolean
  /** Only notices in these phases; null for all. A filtered run draws no conclusions about the others. */
  readonly statuses: readonly string[] | null
  /** Only these notices, whether they changed or not; null for all. */
  readonly ids: readonly string[] | null
  readonly allowMassDelete: boolean
}

/** The list may change while it is read, so a small difference is no reason to distrust it. */
const FEW_NOT_SHOWN = 20
const SHARE_NOT_SHOWN = 0.05

export type SyncContext = RunContext & { readonly api: Api }

/**
 * One run for one company, from its list to its snapshot. The caller holds the company's lock.
 *
 * A run that fails or is interrupted still loads and publishes what it has, and its report says so.
 * @throws if no report can be written: a full disk, a damaged log, a bug.
 */
export async function sync(request: SyncRequest, context: SyncContext): Promise<RunResult> {
  return await withRun(context, modeOf(request), async run => {
    const { warehouse, loader, report } = run
    const refetch = await decideRefetch(request, warehouse)
    await loader.append(runStarted(request, context, refetch, await logName(warehouse)))
    // The request must survive this process, even if it dies while reading the list.
    if (refetch.anew) await loader.settle()
    const drift = await mirror({ ...request, refetch }, context, run).catch(error => {
      conclude(run, error)
      return []
    })
    addRequests(report, context.api)
    setAside(report, loader.poisoned)
    return await finishRun(run, context, drift)
  })
}

/**
 * Scan, detect, fetch, load: makes the warehouse match the API.
 * @returns where the list's envelope differs from the contract.
 */
async function mirror(request: SurveyRequest, context: SyncContext, run: Run): Promise<readonly Drift[]> {
  const { loader, report } = run
  const { plan, missing, unlisted, scanned } = await survey(request, context, run.warehouse)
  report.scan_passes = scanned.passes
  report.scan_complete = scanned.complete
  report.listed = plan.listed + scanned.absent + scanned.failed.length
  report.added = plan.added
  report.changed = plan.changed
  report.revived = plan.revived
  report.unchanged = plan.unchanged
  report.deferred = plan.deferred
  report.gone = scanned.absent
  report.quarantined = plan.rejected
  report.not_attempted = plan.toFetch
  explainMissing(run, missing)
  explainScan(report, scanned)

  for await (const record of readPlan<ListedRecord>(plan.recordsPath)) await logRecord(loader, record)
  for (const edital_id of missing.gone) await loader.append({ type: 'gone', edital_id })
  for (const record of unlisted) await loader.append({ type: 'gone', ...record })
  report.tombstoned = missing.gone.length
  // Load now, so that BI sees new and changed notices before their analyses are fetched.
  if (plan.toFetch > 0) await loader.settle()

  const fetched = await fetchAnalyses({
    ...context,
    loader,
    work: readPlan<Work>(plan.workPath),
    onProgress: so => context.onProgress({ stage: 'fetch', done: attempted(so), total: plan.toFetch }),
  })
  if (attempted(fetched) > 0) await loader.settle()
  addFetched(run, fetched)
  return scanned.drift
}

export type SurveyRequest = SyncRequest & { readonly refetch: Refetch }

export type Survey = {
  readonly plan: Plan
  readonly missing: Missing
  readonly unlisted: Awaited<ReturnType<typeof unlistedRecords>>
  readonly scanned: Scan
}

/**
 * Reads the API's list and decides what to do. Changes only temporary tables and files.
 * @throws FatalError if the list cannot be read or belongs to another company (identity guard).
 */
export async function survey(
  request: SurveyRequest,
  context: SyncContext,
  { db }: Pick<Warehouse, 'db'>,
): Promise<Survey> {
  const { paths, settings, api, signal } = context
  const { sourceTimezone } = settings
  const listed = new ListedFile(join(paths.temporary, 'listed.ndjson'))
  const onProgress = (progress: { done: number; total: number }) =>
    context.onProgress({ stage: 'scan', ...progress })
  onProgress({ done: 0, total: 0 })
  try {
    const scanned = request.ids
      ? await readByIds({ api, ids: request.ids, listed, signal, onProgress })
      : await scan({ api, statuses: request.statuses, listed, signal, onProgress })
    await listed.flush()
    await stageListed(db, listed, sourceTimezone)
    const trusted = request.allowMassDelete
    if (isFiltered(request) && !trusted && (await isForeignKey(db, api))) throw anotherCompany()
    let missing: Missing = { gone: [], found: 0, held: false, unverified: [] }
    if (!isFiltered(request)) {
      if (!trusted && (await isAnotherCompany(db))) throw anotherCompany()
      missing = await verifyMissing({ db, api, listed, allowMassDelete: trusted, signal })
      if (missing.found > 0) {
        await listed.flush()
        await stageListed(db, listed, sourceTimezone)
      }
    }
    throwIfInterrupted(signal)
    const unlisted = !isFiltered(request) && scanned.complete ? await unlistedRecords(db) : []
    const plan = await detect({
      db,
      listed,
      now: context.now(),
      analysisStatuses: settings.analysisStatuses,
      refetchSegment: request.refetch.segment,
      analysisMaxAge: settings.analysisMaxAge,
      force: request.ids !== null,
      temporaryDirectory: paths.temporary,
    })
    return { plan, missing, unlisted, scanned }
  } finally {
    await listed.close()
  }
}

function modeOf(request: SyncRequest): RunReport['mode'] {
  if (isFiltered(request)) return 'filtered'
  return request.full ? 'full' : 'incremental'
}

function isFiltered({ statuses, ids }: SyncRequest): boolean {
  return statuses !== null || ids !== null
}

export type Refetch = {
  /** Analyses received up to this segment of the raw log are due again. Segment order does not depend on clocks. */
  readonly segment: number | null
  /** True if this run sets it, in its first segment; false if an earlier run did. */
  readonly anew: boolean
}

/** Resolves `--full`: continues an unfinished one unless `restart` is set. */
export async function decideRefetch(request: SyncRequest, { db }: Pick<Warehouse, 'db'>): Promise<Refetch> {
  const { segment, next, unfinished } = await db.row<{
    segment: number | null
    next: number
    unfinished: boolean
  }>('SELECT refetch_segment AS segment, applied_segment + 1 AS next, refetch_open AS unfinished FROM meta')
  const anew = request.full && (request.restart || !unfinished)
  return { segment: anew ? next : segment, anew }
}

/** `--full` is recorded in the log, not in this process, so any later run continues it. */
function runStarted(
  request: SyncRequest,
  { paths, settings, now }: SyncContext,
  refetch: Refetch,
  log: string | null,
): Line {
  return {
    type: 'run_started',
    mode: modeOf(request),
    company: paths.company,
    ...(log === null ? {} : { log }),
    analysis_statuses: settings.analysisStatuses,
    ...(refetch.anew ? { refetch_before: now().toISOString() } : {}),
  }
}

async function logRecord(loader: Loader, record: ListedRecord): Promise<void> {
  const { edital_id, updated_at, document, drift, raw, hash, reason, path, excerpt } = record
  if (reason !== null) {
    await loader.append({
      type: 'rejected',
      edital_id,
      kind: 'notice',
      reason,
      path: path ?? '$',
      hash: hash ?? '',
      raw: raw ?? '',
      excerpt: excerpt ?? '',
    })
    return
  }
  await loader.append(
    {
      type: 'notice',
      edital_id: edital_id as string,
      updated_at: updated_at as string,
      ...(drift ? { drift: JSON.parse(drift) } : {}),
      ...(raw ? { raw } : {}),
    },
    { notice: document as string },
  )
}

function attempted({ loaded, gone, quarantined, failed, excluded }: Fetched): number {
  return loaded + gone + quarantined + failed + excluded
}

function addFetched(run: Run, fetched: Fetched): void {
  const { report } = run
  report.loaded = fetched.loaded
  report.gone += fetched.gone
  report.quarantined += fetched.quarantined
  report.failed += fetched.failed
  report.deferred += fetched.excluded
  report.not_attempted -= attempted(fetched)
  report.silent_changes = fetched.silentChanges
  if (fetched.failed > 0 && !fetched.stopped) {
    worsen(
      report,
      'partial',
      `${counted(fetched.failed, 'analysis', 'analyses')} could not be fetched. Last failure: ${fetched.lastFailure}.`,
    )
  }
  if (fetched.excluded > 0) {
    // Not a failure, just as when ANALYSIS_STATUSES excludes them.
    worsen(
      report,
      'ok',
      `The API does not offer ${counted(fetched.excluded, 'analysis', 'analyses')}. Last one: ${fetched.lastExcluded}. To skip such analyses, set ANALYSIS_STATUSES here to the phases that it offers.`,
    )
  }
  if (fetched.stopped) conclude(run, fetched.stopped)
}

/** Turns the error that ended a run early into its status. Rethrows a bug or a full disk. */
function conclude({ report, causes }: Run, error: unknown): void {
  if (error instanceof RequestError) {
    worsen(
      report,
      'failed',
      `The API could not be read: ${error.message}. Nothing was changed. Run again later.`,
    )
    return
  }
  if (!(error instanceof FatalError)) throw error
  if (error.why) causes.add(error.why)
  worsen(report, statusOfExit(error.exitCode), error.message)
}

/** Counts records that could not be loaded as quarantined. Any quarantined record makes the run partial. */
function setAside(report: RunReport, poisoned: readonly string[]): void {
  const moved = Math.min(new Set(poisoned).size, report.loaded)
  report.loaded -= moved
  report.quarantined += moved
  if (report.quarantined > 0) {
    worsen(report, 'partial', `${counted(report.quarantined, 'quarantined record')}; see \`npm run status\`.`)
  }
}

function addRequests(report: RunReport, { stats }: Api): void {
  report.requests = stats.requests
  report.bytes_fetched = stats.bytes
}

function explainMissing({ report, causes }: Run, { held, unverified }: Missing): void {
  if (held) {
    causes.add('mass_deletion_held')
    worsen(
      report,
      'partial',
      'Too many notices disappeared from the API at once, so none was marked as deleted. Check that API_KEY is the key of this company. If the deletions are real, run with --allow-mass-delete.',
    )
  }
  const [first] = unverified
  if (first) {
    const { id, reason } = first
    causes.add('missing_unverified')
    worsen(
      report,
      'partial',
      `${counted(unverified.length, 'notice')} that the list no longer shows could not be checked, such as ${id}: ${reason}.`,
    )
  }
}

function explainScan(report: RunReport, { failed, total }: Scan): void {
  const [first] = failed
  report.failed = failed.length
  if (first)
    worsen(
      report,
      'partial',
      `${counted(failed.length, 'notice')} could not be read, such as ${first.id}: ${first.reason}.`,
    )
  if (total - report.listed > Math.max(FEW_NOT_SHOWN, total * SHARE_NOT_SHOWN)) {
    worsen(
      report,
      'partial',
      `The list reports ${counted(total, 'notice')} but returned only ${formatCount(report.listed)}. The API is at fault; the next run tries again.`,
    )
  }
}

function anotherCompany(): FatalError {
  return new FatalError(
    'The API lists none of the notices in this warehouse. Either the key belongs to another company, or the list is incomplete. Nothing was changed. Check API_KEY and COMPANY; if the list is correct, run with --allow-mass-delete.',
    EXIT.failed,
    { why: 'identity_guard' },
  )
}
