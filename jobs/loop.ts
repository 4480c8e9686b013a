import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { explain } from '#src/errors.ts'
import { isRefusal, tellError } from './queue.ts'

/** Does the work again and again, with a pause after each time, until the signal is aborted. */
export async function every(
  intervalMs: number,
  work: () => Promise<void>,
  { signal, log }: { signal: AbortSignal; log: Logger },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(error => {
      if (isRefusal(error)) tellError(log, error)
      else log.error(explain(error).message)
    })
    await sleep(intervalMs, undefined, { signal }).catch(() => {})
  }
}
