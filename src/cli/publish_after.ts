import type { Logger } from 'pino'
import { publishBehind } from '#src/operate/publish_remote.ts'
import type { RunContext } from '#src/pipeline/run.ts'
import { counted } from '#src/platform/count.ts'
import { EXIT, explain } from '#src/platform/errors.ts'

/**
 * Publishes the latest snapshot to the object store, once a command has printed its result. Never throws, and does not
 * change the exit code: the local lake is correct, and the next run tries again.
 */
export async function publishAfter(context: RunContext, log: Logger, what: string): Promise<void> {
  const { settings, signal } = context
  if (settings.remoteLake === null) return
  // The next publish finishes whatever is interrupted.
  const leave = () => process.exit(EXIT.interrupted)
  if (signal.aborted) return
  signal.addEventListener('abort', leave)
  const note = (text: string) =>
    void (process.stderr.isTTY ? process.stderr.write(`${text}\n`) : log.info(text))
  const warn = (text: string) =>
    void (process.stderr.isTTY ? process.stderr.write(`${text}\n`) : log.warn(text))
  try {
    const published = await publishBehind(context, { progress: () => {}, note }, { what })
    if (published?.written)
      note(
        `Published ${published.snapshot} to the object store: ${counted(published.uploaded, 'new file')}, ${Math.ceil(published.bytesUploaded / 1000)} kB.`,
      )
  } catch (error) {
    const { message } = explain(error)
    // Some messages already include this.
    const then = message.includes('The next run publishes') ? '' : ' The next run tries again.'
    warn(`The object store does not have the latest snapshot: ${message}${then}`)
  } finally {
    signal.removeEventListener('abort', leave)
  }
}
