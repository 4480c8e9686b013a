import { isatty } from 'node:tty'
import type { DestinationStream, Logger } from 'pino'
import { printable, printableLines } from '#schema/text_key.ts'
import { createLogger } from '#src/lib/log.ts'
import type { LogLevel } from '#src/lib/log_level.ts'

const STDERR = 2

/** Returns a logger for interactive use: colours on a terminal, JSON elsewhere. */
export async function openLog(level: LogLevel, about: Readonly<Record<string, string>>): Promise<Logger> {
  if (!isatty(STDERR)) return createLogger(level, about)
  return createLogger(level, about, await forTerminal(STDERR))
}

/**
 * Formats log lines for a terminal: one line per entry, in colours, without the fields that only programs need, and without
 * characters of foreign texts that a terminal would obey or hide.
 */
export async function forTerminal(destination: number | NodeJS.WritableStream): Promise<DestinationStream> {
  // Loaded only for a terminal.
  const { default: pretty } = await import('pino-pretty')
  const stream = pretty({
    destination,
    sync: true,
    singleLine: true,
    // A report's `error` is a sentence.
    errorLikeObjectKeys: [],
    translateTime: 'SYS:HH:MM:ss',
    ignore: 'company,worker,run_id,job',
    // In other fields, controls stay escaped.
    messageFormat: (log, key) => printable(`${log.company ? `${log.company}: ` : ''}${log[key]}`),
  })
  return { write: line => void stream.write(printableLines(line)) }
}
