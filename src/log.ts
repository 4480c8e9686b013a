import { isatty } from 'node:tty'
import pino, { type DestinationStream, type Logger } from 'pino'
import type { Settings } from '#config/settings.ts'

const STDERR = 2

/** What ended badly is told also where only errors are logged. */
export const LEVEL_OF_STATUS = { ok: 'info', partial: 'warn', interrupted: 'warn', failed: 'error' } as const

export type LogLevel = Settings['logLevel']

/**
 * Lines on stderr, as JSON; stdout belongs to a command's result. `about` is in every line: company, run_id,
 * job. No request headers are ever logged; the redaction is for the day somebody logs an object that holds some.
 */
export function createLogger(
  level: LogLevel,
  about: Readonly<Record<string, string>>,
  destination: DestinationStream = pino.destination({ fd: STDERR, sync: true }),
): Logger {
  return pino(
    {
      level,
      base: about,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
      redact: {
        paths: [...SECRETS.flatMap(name => [name, `*.${name}`]), '["x-api-key"]', '*["x-api-key"]'],
        remove: true,
      },
    },
    destination,
  )
}

const SECRETS = ['apiKey', 'authorization', 'adminToken', 'webhookUrl', 'password']

/** The same for somebody who watches: colours on a terminal, JSON elsewhere. */
export async function openLog(level: LogLevel, about: Readonly<Record<string, string>>): Promise<Logger> {
  if (!isatty(STDERR)) return createLogger(level, about)
  // Loaded for people only. A line each, and no names that only machines look for.
  const { default: pretty } = await import('pino-pretty')
  const stream = pretty({
    destination: STDERR,
    sync: true,
    singleLine: true,
    // A report's `error` is a sentence.
    errorLikeObjectKeys: [],
    translateTime: 'SYS:HH:MM:ss',
    ignore: 'company,worker,run_id,job',
    messageFormat: (log, key) => `${log.company ? `${log.company}: ` : ''}${log[key]}`,
  })
  return createLogger(level, about, stream)
}
