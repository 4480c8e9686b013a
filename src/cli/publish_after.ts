import type { Logger } from 'pino'
import { printableLines } from '#schema/text_key.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { counted } from '#src/lib/count.ts'
import { EXIT, explain } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { publishBehind } from '#src/operate/extras.ts'

/** A store that hangs does not hold a command that has printed its result. */
const SILENCE_MS = 4000

/**
 * Brings the latest snapshot to the object store, once a command has printed its result. Never throws, and does not
 * change the exit code: the local lake is right, and the next run tries again.
 */
export async function publishAfter(context: CompanyContext, log: Logger, what: string): Promise<void> {
  const { settings, signal } = context
  if (settings.remoteLake === null) return
  // The next publish finishes whatever is interrupted.
  const leave = () => endProcess(EXIT.interrupted)
  if (signal.aborted) return
  signal.addEventListener('abort', leave)
  const note = (text: string) =>
    void (process.stderr.isTTY ? process.stderr.write(`${printableLines(text)}\n`) : log.info(text))
  try {
    const published = await publishBehind(
      context,
      { progress: () => {}, note },
      { what, silenceMs: SILENCE_MS },
    )
    if (published?.written)
      note(
        `Published ${published.snapshot} to the object store: ${counted(published.uploaded, 'new file')}, ${Math.ceil(published.bytesUploaded / 1000)} kB.`,
      )
  } catch (error) {
    warn(log, `The object store does not have the latest snapshot yet: ${explain(error).message}`)
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** Prints a warning: for people as it is, for programs as a log line. Call it once the display has ended. */
export function warn(log: Logger, text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`${printableLines(text)}\n`)
  else log.warn(text)
}
