import { randomBytes } from 'node:crypto'
import type { ApiSettings, Settings } from '#config/settings.ts'
import { type Api, type ApiOptions, createApiClient } from '#src/core/api/client.ts'
import { type CompanyPaths, companyPaths } from '#src/core/company/company.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import { readBase } from '#src/core/rawlog/files.ts'
import type { Bringing, CompanyContext } from '#src/extras/extra.ts'
import { type Holding, holdDisk, type Listener, readWaitMs } from '#src/extras/hold.ts'
import { getHosts } from '#src/extras.ts'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { combineFollowers } from './extras.ts'
import { describeRetry } from './open_log.ts'

/** Returns the real effects for one company: its directories, the clock, ids, and a listener. */
export function createLocalContext(
  settings: Settings,
  listener: Listener,
  signal: AbortSignal,
): CompanyContext {
  const paths = companyPaths(settings.dataDir, settings.company)
  return {
    paths,
    settings,
    now: () => new Date(),
    runId: newId(),
    newId,
    signal,
    onProgress: progress => listener.progress(progress),
    inStage: workUntimed,
    onNote: text => listener.note(text),
    follower: combineFollowers(settings, paths),
    // Loaded when a run publishes: looks need none.
    loadMarts: async () => await (await import('#src/marts/open.ts')).loadMarts(),
    sharedLog: settings.remoteLog && getHosts().open(settings.remoteLog, paths, signal),
  }
}

/** Sorts by time, and is unique even if two runs begin in the same second. */
function newId(): string {
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
  return `${time}-${randomBytes(3).toString('hex')}`
}

export function openApi(
  api: ApiSettings,
  listener: Listener,
  signal: AbortSignal,
  onAnswer?: ApiOptions['onAnswer'],
): Api {
  return createApiClient({
    ...api,
    ...(onAnswer ? { onAnswer } : {}),
    signal,
    nowMs: () => performance.now(),
    onRetry(retry) {
      if (listener.retry) listener.retry(retry)
      else listener.note(describeRetry(retry, performance.now()))
    },
  })
}

/**
 * Holds the company while `work` runs (invariant I8): on this disk, and if hosts share its log, on all of them. Then the
 * disk has what others sealed.
 */
export async function holdCompany<T>(
  context: CompanyContext,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  return await holdDisk(context, listener, options, () => holdingSharedLog(context, listener, options, work))
}

async function holdingSharedLog<T>(
  { sharedLog, settings, paths, now, signal }: CompanyContext,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  if (sharedLog === null) {
    await refuseEndOfLog(paths)
    return await work()
  }
  const restored = await sharedLog.take({
    what: options.what,
    waitMs: readWaitMs(options),
    now,
    signal,
    onWait: who => listener.note(`Waiting for ${who} to release the raw log`),
    ...createBringing({ settings, paths }, listener),
    leavesDisk: options.leavesDisk ?? false,
  })
  noteRestored(restored, listener)
  try {
    return await work()
  } finally {
    await sharedLog.release()
  }
}

/** Returns how segments from the object store are brought to this disk. */
export function createBringing(
  { settings, paths }: Pick<CompanyContext, 'settings' | 'paths'>,
  listener: Listener,
): Bringing {
  const note = 'Segments from the object store'
  return {
    onSegment: (done, total) => listener.progress({ stage: 'open', done, total, note }),
    onRefused: text => listener.note(`${paths.company}: ${text}`),
    sourceTimezone: settings.sourceTimezone,
  }
}

export function noteRestored(segments: number, listener: Listener): void {
  if (segments > 0)
    listener.note(`Restored the warehouse from a checkpoint of the first ${pluralize(segments, 'segment')}`)
}

/** Throws FatalError (usage) if the beginning of the log is only in the object store, which is no longer set. */
async function refuseEndOfLog({ raw, company }: CompanyPaths): Promise<void> {
  const { segments } = await readBase(raw)
  if (segments === 0) return
  throw new FatalError(
    `The first ${pluralize(segments, 'segment')} of the raw log of ${company} are not on this disk, but in the object store, and LOG_URL is not set. Set it, and run \`editais log pull --company ${company}\`; then this disk has the whole log, and you can remove LOG_URL.`,
    EXIT.usage,
  )
}
