import type { Logger } from 'pino'
import type { Progress } from '#src/run.ts'

/** What a running command shows of itself. */
export type Display = {
  progress(progress: Progress): void
  note(text: string): void
  /** The display is final and the terminal free again. */
  end(): Promise<void>
}

export const STAGES = ['open', 'scan', 'fetch', 'load', 'publish'] as const
export type Stage = (typeof STAGES)[number]
export const TITLES: Record<Stage, string> = {
  open: 'Open the warehouse',
  scan: 'Scan the list',
  fetch: 'Fetch analyses',
  load: 'Load into the warehouse',
  publish: 'Publish the snapshot',
}
/** A log needs to show that a long run lives, not each of its thousands of steps. */
const LOG_INTERVAL_MS = 5000

/** A live line per stage on a terminal, log lines elsewhere. */
export async function createDisplay(options: {
  terminal: boolean
  log: Logger
  nowMs: () => number
}): Promise<Display> {
  if (!options.terminal) return logDisplay(options.log, options.nowMs)
  const { liveDisplay } = await import('./live.ts')
  return liveDisplay(options.nowMs)
}

function logDisplay(log: Logger, nowMs: () => number): Display {
  const toldAtMs = new Map<Stage, number>()
  return {
    progress({ stage, done, total, note }) {
      const complete = total > 0 && done === total
      if (!complete && nowMs() - (toldAtMs.get(stage) ?? 0) < LOG_INTERVAL_MS) return
      toldAtMs.set(stage, nowMs())
      log.info({ stage, done, ...(total > 0 ? { total } : {}) }, note ?? TITLES[stage])
    },
    note: text => log.warn(text),
    end: async () => {},
  }
}

export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
