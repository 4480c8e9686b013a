import type { Logger } from 'pino'
import type { Settings } from '#config/settings.ts'
import { AGAIN, stopSignal } from '#src/lib/exit.ts'
import { createLogger } from '#src/lib/log.ts'
import { logListener, openLog } from '#src/operate/open_log.ts'
import type { Display } from './live.ts'

/** The session that a command works with. */
export type CommandSession = {
  readonly log: Logger
  readonly display: Display
  /** Aborted by Ctrl-C or SIGTERM. */
  readonly signal: AbortSignal
}

/**
 * Does a command's work for a company, and shows its progress: a live line per stage on a terminal, log lines
 * elsewhere. Ends the display whatever happens, so print results afterwards.
 * @param stopping the note when the command is asked to stop.
 */
export async function withDisplay<T>(
  { company, logLevel }: Pick<Settings, 'company' | 'logLevel'>,
  stopping: string,
  work: (session: CommandSession) => Promise<T>,
): Promise<T> {
  // Live lines need to know the size of the terminal: in `docker exec -t` of a script, it has none.
  const isLive = process.stderr.isTTY && process.stderr.rows !== 0
  const log = isLive ? createLogger(logLevel, { company }) : await openLog(logLevel, { company })
  const display = await createDisplay(isLive ? null : log)
  const signal = stopSignal(() => display.note(`${stopping}. ${AGAIN}`))
  try {
    return await work({ log, display, signal })
  } finally {
    await display.end()
  }
}

/** @param log gets lines instead, unless it is null. */
async function createDisplay(log: Logger | null): Promise<Display> {
  const nowMs = () => performance.now()
  if (log !== null) return { ...logListener(log, nowMs), end: async () => {} }
  const { createLiveDisplay } = await import('./live.ts')
  return createLiveDisplay(nowMs)
}
