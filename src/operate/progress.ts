import type { Logger } from 'pino'
import type { Listener } from '#src/extras/hold.ts'

export const STAGES = ['open', 'scan', 'fetch', 'load', 'publish'] as const
export type Stage = (typeof STAGES)[number]
export const TITLES: Record<Stage, string> = {
  open: 'Open the warehouse',
  scan: 'Scan the list',
  fetch: 'Fetch analyses',
  load: 'Load into the warehouse',
  publish: 'Publish the snapshot',
}
/** The log must show that a long run is alive, not each of its steps. For a short run, its end is enough. */
const LOG_INTERVAL_MS = 5000

/** Logs the progress of a run. */
export function logListener(log: Logger, nowMs: () => number): Listener {
  const beganMs = nowMs()
  const loggedAtMs = new Map<Stage, number>()
  return {
    progress({ stage, done, total, note }) {
      // If progress of a stage was logged, its end is logged, too.
      const complete = total > 0 && done === total && loggedAtMs.has(stage)
      if (!complete && nowMs() - (loggedAtMs.get(stage) ?? beganMs) < LOG_INTERVAL_MS) return
      loggedAtMs.set(stage, nowMs())
      log.info({ stage, done, ...(total > 0 ? { total } : {}) }, note ?? TITLES[stage])
    },
    note: text => log.warn(text),
  }
}
