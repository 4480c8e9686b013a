import type { Logger } from 'pino'
import type { Listener } from '#src/operate/open.ts'
import { logListener } from '#src/operate/progress.ts'

/** Where a running command shows its progress. */
export type Display = Listener & {
  /** Finishes the display and frees the terminal. */
  end(): Promise<void>
}

/** A live line per stage on a terminal, log lines elsewhere. */
export async function createDisplay(options: {
  terminal: boolean
  log: Logger
  nowMs: () => number
}): Promise<Display> {
  if (!options.terminal) return { ...logListener(options.log, options.nowMs), end: async () => {} }
  const { liveDisplay } = await import('./live.ts')
  return liveDisplay(options.nowMs)
}

export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
