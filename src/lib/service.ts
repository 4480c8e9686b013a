import type { Logger } from 'pino'
import { EXIT } from './errors.ts'
import { endProcess, stopSignal, untilStopped } from './exit.ts'
import { flushLog } from './log.ts'

/**
 * Runs a service until SIGINT or SIGTERM, then ends the process. A second signal ends it at once.
 * @param stopping the log line when it begins to stop.
 * @param open starts the service, and returns what stops it.
 */
export async function runService(
  log: Logger,
  stopping: string,
  open: (signal: AbortSignal) => Promise<() => Promise<void>>,
): Promise<never> {
  const signal = stopSignal(() => log.info(`${stopping} A second signal ends it now.`))
  const close = await open(signal)
  await untilStopped(signal)
  await close()
  log.info('Stopped.')
  await flushLog()
  // Ends explicitly, so that neither a log that is not read nor a library's timer keeps the process alive.
  endProcess(EXIT.ok)
}
