import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { ApiSettings, Settings } from '#config/settings.ts'
import { type Api, type ApiOptions, createApiClient } from '#src/core/api/client.ts'
import { type CompanyPaths, companyPaths, makeDirectories } from '#src/core/company/company.ts'
import type { Progress, RunContext } from '#src/core/pipeline/run.ts'
import { untimed } from '#src/core/pipeline/stage.ts'
import { readBase } from '#src/core/rawlog/files.ts'
import { SharedLog } from '#src/extras/shared_log/log.ts'
import { counted } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { takeLock } from '#src/lib/lock.ts'
import { followers } from './followers.ts'

const DEFAULT_WAIT_SECONDS = 600

/** Receives progress and notes: a terminal, or the log. */
export type Listener = {
  progress(progress: Progress): void
  note(text: string): void
}

/** The effects for one company of this machine, whose log may be shared with other hosts. */
export type CompanyContext = RunContext & { readonly sharedLog: SharedLog | null }

/** Returns the real effects for one company: its directories, the clock, ids, and a listener. */
export function localContext(settings: Settings, listener: Listener, signal: AbortSignal): CompanyContext {
  const paths = companyPaths(settings.dataDir, settings.company)
  return {
    paths,
    settings,
    now: () => new Date(),
    runId: newId(),
    newId,
    signal,
    onProgress: progress => listener.progress(progress),
    inStage: untimed,
    onNote: text => listener.note(text),
    follower: followers(settings, paths),
    sharedLog: settings.remoteLog && new SharedLog(settings.remoteLog, paths, signal),
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
    nowMs: Date.now,
    onRetry: ({ path, reason, retryDelayMs }) =>
      listener.note(
        `${path}: ${reason}; retrying${retryDelayMs ? ` in ${(retryDelayMs / 1000).toFixed(1)} s` : ''}`,
      ),
  })
}

type Holding = {
  readonly what: string
  readonly waitSeconds?: number
  /** Brings nothing from the shared log: this disk has what the store lacks. */
  readonly leavesDisk?: boolean
}

/**
 * Holds the company while `work` runs (invariant I8): on this disk, and if hosts share its log, on all of them. Then the
 * disk has what others sealed.
 */
export async function holdingCompany<T>(
  context: CompanyContext,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  return await holdingDisk(context, listener, options, () =>
    holdingSharedLog(context, listener, options, work),
  )
}

/** Holds the company on this disk while `work` runs; hosts that share its log continue. */
export async function holdingDisk<T>(
  context: CompanyContext,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  const { paths, settings } = context
  for (const note of await makeDirectories(paths, settings.lake)) listener.note(note)
  return await holding({ path: paths.lock, name: 'the company' }, context, listener, options, work)
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
    waitMs: waitMsOf(options),
    now,
    signal,
    onWait: who => listener.note(`Waiting for ${who} to release the raw log`),
    ...bringing({ settings, paths }, listener),
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
export function bringing(
  { settings, paths }: Pick<CompanyContext, 'settings' | 'paths'>,
  listener: Listener,
): Parameters<SharedLog['bring']>[0] {
  const note = 'Segments from the object store'
  return {
    onSegment: (done, total) => listener.progress({ stage: 'open', done, total, note }),
    onRefused: text => listener.note(`${paths.company}: ${text}`),
    sourceTimezone: settings.sourceTimezone,
  }
}

export function noteRestored(segments: number, listener: Listener): void {
  if (segments > 0)
    listener.note(`Restored the warehouse from a checkpoint of the first ${counted(segments, 'segment')}`)
}

/** Throws FatalError (usage) if the beginning of the log is only in the object store, which is no longer set. */
async function refuseEndOfLog({ raw, company }: CompanyPaths): Promise<void> {
  const { segments } = await readBase(raw)
  if (segments === 0) return
  throw new FatalError(
    `The first ${counted(segments, 'segment')} of the raw log of ${company} are not on this disk, but in the object store, and LOG_URL is not set. Set it, and run \`npm run log -- pull --company ${company}\`; then this disk has the whole log, and you can remove LOG_URL.`,
    EXIT.usage,
  )
}

function waitMsOf({ waitSeconds = DEFAULT_WAIT_SECONDS }: { readonly waitSeconds?: number }): number {
  return waitSeconds * 1000
}

/** Holds the company's part of the object store while `work` writes there. Runs may continue. */
export async function holdingStore<T>(
  context: Pick<CompanyContext, 'paths' | 'settings' | 'now' | 'signal'>,
  listener: Listener,
  options: { what: string; waitSeconds?: number },
  work: () => Promise<T>,
): Promise<T> {
  const { paths, settings } = context
  for (const note of await makeDirectories(paths, settings.lake)) listener.note(note)
  const held = { path: paths.remoteLock, name: 'the object store' }
  return await holding(held, context, listener, options, work)
}

async function holding<T>(
  { path, name }: { path: string; name: string },
  { now, signal }: Pick<CompanyContext, 'now' | 'signal'>,
  listener: Listener,
  options: { what: string; waitSeconds?: number },
  work: () => Promise<T>,
): Promise<T> {
  const lock = await takeLock(
    path,
    { pid: process.pid, host: hostname(), what: options.what, since: now().toISOString() },
    {
      waitMs: waitMsOf(options),
      signal,
      nowMs: Date.now,
      onWait: holder =>
        listener.note(
          `Waiting for ${holder ? `${holder.what} (process ${holder.pid} on ${holder.host})` : 'another process'} to release ${name}`,
        ),
    },
  )
  try {
    return await work()
  } finally {
    await lock.release()
  }
}
