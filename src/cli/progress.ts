import type { Logger } from 'pino'
import { logListener } from '#src/operate/progress.ts'
import type { Display } from './live.ts'

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
