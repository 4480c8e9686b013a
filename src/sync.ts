import { join } from 'node:path'
import type { Settings } from '#config/settings.ts'
import type { Api } from './api/client.ts'
import { type CompanyPaths, makeDirectories } from './company.ts'
import { detect, type ListedRecord, type Plan, readPlan, type Work } from './detect.ts'
import { FatalError, RequestError, throwIfInterrupted } from './errors.ts'
import { type Fetched, fetchAnalyses } from './fetch.ts'
import { type Published, publish } from './lake/publish.ts'
import { ListedFile, stageListed } from './listed.ts'
import { createLoader, type Loader } from './load.ts'
import { isAnotherCompany, type Missing, verifyMissing } from './missing.ts'
import { removeUnsealed, sealedSegments } from './rawlog/files.ts'
import type { Line } from './rawlog/line.ts'
import { RawLogWriter } from './rawlog/writer.ts'
import { assertConserved, newReport, type RunReport, statusOfExit, worsen } from './report.ts'
import { readByIds, type Scan, scan } from './scan.ts'
import type { Drift } from './validate.ts'
import { type OpenOptions, openWarehouse, type Warehouse } from './warehouse/warehouse.ts'

export type SyncRequest = {
  /** Fetch every analysis again, resuming an unfinished `--full` unless `restart`. */
  readonly full: boolean
  readonly restart: boolean
  /** Only notices of these phases; null for all. A filtered run concludes nothing about the others. */
  readonly statuses: readonly string[] | null
  /** Only these notices, whether they changed or not; null for all. */
  readonly ids: readonly string[] | null
  readonly allowMassDelete: boolean
}

/** What a run tells while it goes on; `total` is 0 while it is not known. */
export type Progress = {
  readonly stage: 'open' | 'scan' | 'fetch' | 'load' | 'publish'
  readonly done: number
  readonly total: number
  readonly note?: string
}

/** The effects of a run, real or simulated. */
export type SyncContext = {
  readonly paths: CompanyPaths
  readonly settings: Settings
  readonly api: Api
  readonly now: () => Date
  /** A name no other run or warehouse has. */
  readonly newId: () => string
  /** Aborted to stop early: what is there is sealed, loaded and published. */
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
}

export type SyncResult = { readonly report: RunReport; readonly published: Published }

/**
 * One run for one company, from its list to its snapshot; the caller holds the company's lock.
 *
 * A run that fails or is interrupted still loads and publishes what it has, and says so in its report.
 * @throws what leaves no report to write: a full disk, a damaged log, a bug.
 */
export async function sync(request: SyncRequest, context: SyncContext): Promise<SyncResult> {
  const { paths, now, onProgress } = context
  await makeDirectories(paths)
  await removeUnsealed(paths.raw)
  const report = newReport(context.newId(), modeOf(request), now())
  const warehouse = await openWarehouse(openOptions(context))
  const log = new RawLogWriter({
    directory: paths.raw,
    firstNumber: (await sealedSegments(paths.raw)).length + 1,
    runId: report.run_id,
    now,
  })
  let loaded = 0
  const loader = createLoader({
    log,
    ...warehouse,
    onLoaded: documents => {
      loaded += documents
      onProgress({ stage: 'load', done: loaded, total: 0 })
    },
  })
  try {
    const refetch = await decideRefetch(request, now(), warehouse)
    await loader.append(runStarted(request, context, refetch))
    const drift = await mirror({ ...request, refetch }, context, { warehouse, loader, report }).catch(
      error => {
        conclude(report, error)
        return []
      },
    )
    setAside(report, loader.poisoned)
    finish(report, context)
    await loader.append({ type: 'run_finished', report, ...(drift.length > 0 ? { drift } : {}) })
    await loader.settle()
    await warehouse.db.run('CHECKPOINT')
    onProgress({ stage: 'publish', done: 0, total: 0 })
    const published = await publish(publishRequest(context, warehouse))
    return { report, published }
  } finally {
    await log.close()
    warehouse.db.close()
  }
}

type Run = { readonly warehouse: Warehouse; readonly loader: Loader; readonly report: RunReport }

/**
 * Scan, detect, fetch, load: makes the warehouse say what the API says.
 * @returns where the list's own envelope differs from the contract.
 */
async function mirror(request: SurveyRequest, context: SyncContext, run: Run): Promise<readonly Drift[]> {
  const { loader, report } = run
  const { plan, missing, scanned } = await survey(request, context, run.warehouse)
  report.scan_passes = scanned.passes
  report.scan_complete = scanned.complete
  report.listed = plan.listed + scanned.absent
  report.added = plan.added
  report.changed = plan.changed
  report.revived = plan.revived
  report.unchanged = plan.unchanged
  report.deferred = plan.deferred
  report.gone = scanned.absent
  report.quarantined = plan.rejected
  report.not_attempted = plan.toFetch
  explainMissing(report, missing)

  for await (const record of readPlan<ListedRecord>(plan.recordsPath)) await logRecord(loader, record)
  for (const edital_id of missing.gone) await loader.append({ type: 'gone', edital_id })
  report.tombstoned = missing.gone.length
  // BI sees new and changed notices before their analyses are fetched.
  if (plan.toFetch > 0) await loader.settle()

  const fetched = await fetchAnalyses({
    ...context,
    loader,
    work: readPlan<Work>(plan.workPath),
    onProgress: so => context.onProgress({ stage: 'fetch', done: attempted(so), total: plan.toFetch }),
  })
  if (attempted(fetched) > 0) await loader.settle()
  addFetched(report, fetched)
  return scanned.drift
}

export type SurveyRequest = SyncRequest & { readonly refetch: Refetch }

export type Survey = { readonly plan: Plan; readonly missing: Missing; readonly scanned: Scan }

/**
 * Reads what the API lists and decides what is to be done; changes nothing but temporary tables and files.
 * @throws FatalError when the list cannot be read, or is none of this company's (identity guard).
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
  try {
    const scanned = request.ids
      ? await readByIds({ api, ids: request.ids, listed, signal, onProgress })
      : await scan({ api, statuses: request.statuses, listed, signal, onProgress })
    await listed.flush()
    await stageListed(db, listed.path, sourceTimezone)
    let missing: Missing = { gone: [], held: false, unverified: [] }
    if (!isFiltered(request)) {
      if (!request.allowMassDelete && (await isAnotherCompany(db))) throw anotherCompany()
      missing = await verifyMissing({ db, api, listed, allowMassDelete: request.allowMassDelete, signal })
      await listed.flush()
      await stageListed(db, listed.path, sourceTimezone)
    }
    throwIfInterrupted(signal)
    const plan = await detect({
      db,
      now: context.now(),
      analysisStatuses: settings.analysisStatuses,
      refetchBefore: request.refetch.before,
      analysisMaxAge: settings.analysisMaxAge,
      force: request.ids !== null,
      temporaryDirectory: paths.temporary,
    })
    return { plan, missing, scanned }
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

export function openOptions(context: Omit<SyncContext, 'api'>): OpenOptions {
  return {
    ...context,
    sourceTimezone: context.settings.sourceTimezone,
    onApply: ({ reason, done, total }) => {
      const note =
        reason === 'rebuild' ? 'rebuilding from the raw log' : 'applying what an earlier run sealed'
      context.onProgress({ stage: 'open', done, total, note })
    },
  }
}

export function publishRequest(
  { paths, settings, now }: Pick<SyncContext, 'paths' | 'settings' | 'now'>,
  { db }: Pick<Warehouse, 'db'>,
) {
  return { db, lake: paths.lake, company: paths.company, now: now(), keepMs: settings.snapshotKeepMs }
}

export type Refetch = {
  /** Analyses fetched before this instant are due again. */
  readonly before: string | null
  /** This run says so; otherwise an earlier one did. */
  readonly anew: boolean
}

/** What `--full` asks for: an unfinished one goes on, unless it is to begin anew. */
export async function decideRefetch(
  request: SyncRequest,
  now: Date,
  { db }: Pick<Warehouse, 'db'>,
): Promise<Refetch> {
  const { before, unfinished } = await db.row<{ before: string | null; unfinished: boolean }>(
    'SELECT refetch_before::VARCHAR AS before, refetch_open AS unfinished FROM meta',
  )
  const anew = request.full && (request.restart || !unfinished)
  return { before: anew ? now.toISOString() : before, anew }
}

/** `--full` is a fact in the log, not in this process: whichever run comes next goes on with it. */
function runStarted(request: SyncRequest, { settings }: SyncContext, refetch: Refetch): Line {
  return {
    type: 'run_started',
    mode: modeOf(request),
    analysis_statuses: settings.analysisStatuses,
    ...(refetch.anew && refetch.before ? { refetch_before: refetch.before } : {}),
  }
}

async function logRecord(loader: Loader, record: ListedRecord): Promise<void> {
  const { edital_id, updated_at, document, drift, raw, hash, reason, path, excerpt } = record
  if (reason !== null) {
    await loader.append({
      ...{ type: 'rejected', edital_id, kind: 'notice', reason },
      ...{ path: path ?? '$', hash: hash ?? '', raw: raw ?? '', excerpt: excerpt ?? '' },
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

function attempted({ loaded, gone, quarantined, failed }: Fetched): number {
  return loaded + gone + quarantined + failed
}

function addFetched(report: RunReport, fetched: Fetched): void {
  report.loaded = fetched.loaded
  report.gone += fetched.gone
  report.quarantined += fetched.quarantined
  report.failed = fetched.failed
  report.not_attempted -= attempted(fetched)
  report.silent_changes = fetched.silentChanges
  if (fetched.failed > 0 && !fetched.stopped) {
    worsen(
      report,
      'partial',
      `${fetched.failed} analyses could not be fetched, the last one ${fetched.lastFailure}.`,
    )
  }
  if (fetched.stopped) conclude(report, fetched.stopped)
}

/** Turns what ended a run early into its status; a bug or a full disk passes through. */
function conclude(report: RunReport, error: unknown): void {
  if (error instanceof RequestError) {
    worsen(
      report,
      'failed',
      `The API could not be read: ${error.message}. Nothing was concluded; run again later.`,
    )
    return
  }
  if (!(error instanceof FatalError)) throw error
  worsen(report, statusOfExit(error.exitCode), error.message)
}

function setAside(report: RunReport, poisoned: readonly string[]): void {
  report.loaded -= poisoned.length
  report.quarantined += poisoned.length
}

function finish(report: RunReport, { api, now }: SyncContext): void {
  if (report.quarantined > 0) {
    worsen(report, 'partial', `${report.quarantined} records were quarantined; see \`npm run status\`.`)
  }
  report.requests = api.stats.requests
  report.bytes_fetched = api.stats.bytes
  report.finished_at = now().toISOString()
  assertConserved(report)
}

function explainMissing(report: RunReport, { held, unverified }: Missing): void {
  if (held) {
    worsen(
      report,
      'partial',
      'More notices are gone from the API than can be believed (is this the key of another company?), so none was marked deleted. If it is right, run with --allow-mass-delete.',
    )
  }
  if (unverified.length > 0) {
    const [{ id, reason }] = unverified as [{ id: string; reason: string }]
    worsen(
      report,
      'partial',
      `${unverified.length} notices missing from the list could not be asked for, such as ${id}: ${reason}.`,
    )
  }
}

function anotherCompany(): FatalError {
  return new FatalError(
    'The API lists none of the notices that this warehouse holds: is this the key of another company, or an empty answer? Nothing was changed. Check API_KEY and COMPANY; if it is right, run with --allow-mass-delete.',
  )
}
