import type { Logger } from 'pino'
import type { Listener } from './open.ts'

export const STAGES = ['open', 'scan', 'fetch', 'load', 'publish'] as const
export type Stage = (typeof STAGES)[number]
export const TITLES: Record<Stage, string> = {
  open: 'Open the warehouse',
  scan: 'Scan the list',
  fetch: 'Fetch analyses',
  load: 'Load into the warehouse',
  publish: 'Publish the snapshot',
}
/** A log needs to show that a long run lives, not each of its steps; of a short one its end is enough. */
const LOG_INTERVAL_MS = 5000

/** Log lines about a run that goes on. */
export function logListener(log: Logger, nowMs: () => number): Listener {
  const beganMs = nowMs()
  const toldAtMs = new Map<Stage, number>()
  return {
    progress({ stage, done, total, note }) {
      // The end of a stage whose beginning was told is told, too.
      const complete = total > 0 && done === total && toldAtMs.has(stage)
      if (!complete && nowMs() - (toldAtMs.get(stage) ?? beganMs) < LOG_INTERVAL_MS) return
      toldAtMs.set(stage, nowMs())
      log.info({ stage, done, ...(total > 0 ? { total } : {}) }, note ?? TITLES[stage])
    },
    note: text => log.warn(text),
  }
}
