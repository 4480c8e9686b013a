import { once, setMaxListeners } from 'node:events'
import { existsSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { EXIT, findSystemCode } from './errors.ts'

const SHELL = '/bin/sh'

/**
 * Ends the process with this code, at once. `process.exit` first waits for Node's own threads, and very rarely forever:
 * for one that compiles, and itself waits for the main thread to collect garbage (nodejs/node#54918). A service would
 * then be killed when the time for stopping it is over.
 */
export function endProcess(code: number): never {
  flushCompileCache()
  // What would not happen otherwise.
  process.emit('exit', code)
  // Replaces this program by one that ends. If it could not, Node would abort.
  if (process.platform !== 'win32' && existsSync(SHELL))
    process.execve?.(SHELL, ['sh', '-c', `exit ${code}`], {})
  process.exit(code)
}

/** Ends the process without an error once nobody reads its output: a reader such as `head` closes the pipe early. */
export function endWithReader(): void {
  process.stdout.on('error', error => {
    if (findSystemCode(error) !== 'EPIPE') throw error
    endProcess(EXIT.ok)
  })
}

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
