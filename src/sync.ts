import type { Api } from './core/api/client.ts'
import { readRecords, readWork } from './core/pipeline/detect.ts'
import { type Fetched, fetchAnalyses } from './core/pipeline/fetch.ts'
import { findUsableIndex, KnownList } from './core/pipeline/list_index.ts'
import type { ListedRecord } from './core/pipeline/listed.ts'
import type { Loader } from './core/pipeline/load.ts'
import { composeReport, type Outcomes } from './core/pipeline/report.ts'
import { chooseMode, decideRefetch, type Refetch, type SyncRequest } from './core/pipeline/request.ts'
import { finishRun, type Run, type RunContext, type RunResult, withRun } from './core/pipeline/run.ts'
import { type Survey, survey } from './core/pipeline/survey.ts'
import type { Line } from './core/rawlog/line.ts'
import { logName } from './core/warehouse/warehouse.ts'
import { FatalError, RequestError } from './lib/errors.ts'

export type { SyncRequest } from './core/pipeline/request.ts'

/** A run with at most this many analyses to fetch and list changes is one segment: sealing one more costs as much as a few requests. */
const FEW = 64

/** At least this often a run reads the whole list: a mistake in an index must not last. */
const READ_WHOLE_EVERY_MS = 24 * 60 * 60_000

export type SyncContext = RunContext & { readonly api: Api }

/**
 * Runs one sync for one company, from its list to its snapshot. The caller holds the company's lock. A run that fails or is
 * interrupted still loads and publishes what it has, and its report says so.
 * @throws if no report can be written: a full disk, a damaged log, a bug.
 */
export async function sync(request: SyncRequest, context: SyncContext): Promise<RunResult> {
  const { api, sharedLog } = context
  // Before anything changes: what the last run saw counts only while the files are as it left them.
  const known = await readKnown(request, context)
  if (sharedLog !== null) api.onlyAfter(() => sharedLog.confirm())
  return await withRun(context, chooseMode(request), async run => {
    const { warehouse, loader, begun } = run
    const refetch = await decideRefetch(request, warehouse)
    await loader.append(runStarted(request, context, refetch, await logName(warehouse)))
    // The request must survive this process, even if it dies while reading the list. And a writer that was taken over,
    // but is not dead, must find out before it requests more.
    if (refetch.anew || sharedLog?.isTakeover) await loader.settle()
    const reached = await mirror(request, refetch, context, { ...run, known })
    const compose = () => composeReport(begun, { ...reached, poisoned: loader.poisoned, requests: api.stats })
    const { scanned, shown = null } = reached.surveyed ?? {}
    return await finishRun(run, context, { compose, drift: scanned?.drift ?? [], shown })
  })
}

/** Returns what the last run saw in the list, if an incremental run need only read what differs from it. */
async function readKnown(request: SyncRequest, context: SyncContext): Promise<KnownList | null> {
  if (chooseMode(request) !== 'incremental') return null
  const now = context.now()
  const usable = await findUsableIndex(context, now)
  if (typeof usable === 'string') return null
  const isOld = now.getTime() - Date.parse(usable.index.compared_at) > READ_WHOLE_EVERY_MS
  return isOld ? null : new KnownList(usable.index)
}

/** Makes the warehouse match the API, as far as it gets: scan, verify, detect, fetch, load. */
async function mirror(
  request: SyncRequest,
  refetch: Refetch,
  context: SyncContext,
  run: Run & { known: KnownList | null },
): Promise<Pick<Outcomes, 'surveyed' | 'fetched' | 'ended'>> {
  const { loader, warehouse, known } = run
  const { inStage } = context
  let surveyed: Survey | null = null
  let fetched: Fetched | null = null
  try {
    surveyed = await inStage('scan', () => survey(request, refetch, context, warehouse, known))
    await logChanges(loader, surveyed)
    const { plan, missing } = surveyed
    const toDo = plan.toFetch + plan.records.length + missing.gone.length
    // A crash while analyses are fetched, which can take hours, keeps what the list showed.
    if (plan.toFetch > 0 && toDo > FEW) await loader.settle()
    fetched = await inStage(
      'fetch',
      () => fetchPlanned(plan, context, loader),
      ({ stopped }) => stopped,
    )
    return { surveyed, fetched, ended: fetched.stopped }
  } catch (error) {
    // A bug or a full disk has no report.
    if (!(error instanceof FatalError || error instanceof RequestError)) throw error
    return { surveyed, fetched, ended: error }
  }
}

/** Logs new, changed, rejected and vanished notices. */
async function logChanges(loader: Loader, { plan, listedPath, missing, unlisted }: Survey): Promise<void> {
  for await (const record of readRecords(plan, listedPath)) await logRecord(loader, record)
  for (const edital_id of missing.gone) await loader.append({ type: 'gone', edital_id })
  for (const record of unlisted) await loader.append({ type: 'gone', ...record })
}

async function fetchPlanned(plan: Survey['plan'], context: SyncContext, loader: Loader): Promise<Fetched> {
  const { api, signal } = context
  loader.expect(plan.toFetch)
  return await fetchAnalyses({
    api,
    loader,
    signal,
    work: readWork(plan),
    onProgress: done => context.onProgress({ stage: 'fetch', done, total: plan.toFetch }),
  })
}

/** Makes the first line of a run. It records `--full` in the log, not in this process, so any later run continues it. */
function runStarted(
  request: SyncRequest,
  { paths, settings, now }: SyncContext,
  refetch: Refetch,
  log: string | null,
): Line {
  return {
    type: 'run_started',
    mode: chooseMode(request),
    company: paths.company,
    ...(log === null ? {} : { log }),
    analysis_statuses: settings.analysisStatuses,
    ...(refetch.anew ? { refetch_before: now().toISOString() } : {}),
  }
}

async function logRecord(loader: Loader, record: ListedRecord): Promise<void> {
  if ('reason' in record) return await loader.append({ type: 'rejected', kind: 'notice', ...record })
  const { document, ...line } = record
  await loader.append({ type: 'notice', ...line }, { notice: document })
}
