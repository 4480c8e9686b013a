import { once, setMaxListeners } from 'node:events'
import { EXIT } from './errors.ts'
import { endProcess } from './exit.ts'

/** Earlier repeats are ignored: under npm a single Ctrl-C can arrive twice. */
const SECOND_SIGNAL_AFTER_MS = 1000

/** For the note of the first signal. */
export const AGAIN = 'A second Ctrl-C ends it now.'

/** Aborts on the first SIGINT or SIGTERM, so that fetched data can be kept. Exits at once on a later one. */
export function stopSignal(onStop: () => void): AbortSignal {
  const controller = new AbortController()
  // Every request in flight may listen for it.
  setMaxListeners(0, controller.signal)
  let stoppedAtMs = 0
  const stop = () => {
    if (!controller.signal.aborted) {
      stoppedAtMs = performance.now()
      onStop()
      controller.abort()
    } else if (performance.now() - stoppedAtMs >= SECOND_SIGNAL_AFTER_MS) {
      endProcess(EXIT.interrupted)
    }
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return controller.signal
}

/** Resolves once the signal is aborted. */
export async function untilStopped(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}
