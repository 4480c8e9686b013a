import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { ApiSettings, Settings } from '#config/settings.ts'
import { type Api, createApi } from '#src/api/client.ts'
import { companyPaths, makeDirectories } from '#src/company.ts'
import { EXIT } from '#src/errors.ts'
import { takeLock } from '#src/lock.ts'
import type { RunContext } from '#src/run.ts'
import type { Display } from './progress.ts'

const DEFAULT_WAIT_SECONDS = 600

/** The real effects for one company: its directories, the clock, names, and a display. */
export function localContext(settings: Settings, display: Display, signal: AbortSignal): RunContext {
  return {
    paths: companyPaths(settings.dataDir, settings.company),
    settings,
    now: () => new Date(),
    newId,
    signal,
    onProgress: progress => display.progress(progress),
  }
}

/** Sorts by time, and is unique where two begin in the same second. */
function newId(): string {
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
  return `${time}-${randomBytes(3).toString('hex')}`
}

export function openApi(api: ApiSettings, display: Display, signal: AbortSignal): Api {
  return createApi({
    ...api,
    signal,
    nowMs: Date.now,
    onRetry: ({ path, reason, retryDelayMs }) =>
      display.note(
        `${path}: ${reason}; trying again${retryDelayMs ? ` in ${(retryDelayMs / 1000).toFixed(1)} s` : ''}`,
      ),
  })
}

/** Holds the company while `work` runs (invariant I8). */
export async function holdingCompany<T>(
  context: RunContext,
  display: Display,
  options: { what: string; waitSeconds?: number },
  work: () => Promise<T>,
): Promise<T> {
  const { paths, signal } = context
  await makeDirectories(paths)
  const lock = await takeLock(
    paths.lock,
    { pid: process.pid, host: hostname(), what: options.what, since: context.now().toISOString() },
    {
      waitMs: (options.waitSeconds ?? DEFAULT_WAIT_SECONDS) * 1000,
      signal,
      nowMs: Date.now,
      onWait: holder =>
        display.note(
          `Waiting for ${holder ? `${holder.what} (process ${holder.pid} on ${holder.host})` : 'another process'} to release the company`,
        ),
    },
  )
  try {
    return await work()
  } finally {
    await lock.release()
  }
}

/** A second Ctrl-C counts only when it is meant: under npm one press can arrive twice. */
const SECOND_SIGNAL_AFTER_MS = 1000

/** Aborts on the first SIGINT or SIGTERM, so that what there is can be kept; exits at once on a later one. */
export function stopSignal(onStop: () => void): AbortSignal {
  const controller = new AbortController()
  let stoppedAtMs = 0
  const stop = () => {
    if (!controller.signal.aborted) {
      stoppedAtMs = Date.now()
      onStop()
      controller.abort()
    } else if (Date.now() - stoppedAtMs >= SECOND_SIGNAL_AFTER_MS) {
      process.exit(EXIT.interrupted)
    }
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return controller.signal
}
