import pino, { type Logger } from 'pino'
import type { Settings } from '#config/settings.ts'

/**
 * Lines on stderr, as JSON; stdout belongs to a command's result. No request headers are ever logged;
 * the redaction is for the day somebody logs an object that holds some.
 */
export function createLogger(level: Settings['logLevel'], company: string): Logger {
  return pino(
    {
      level,
      base: { company },
      redact: {
        paths: ['apiKey', '*.apiKey', 'authorization', '*.authorization', '*["x-api-key"]'],
        remove: true,
      },
    },
    pino.destination({ fd: 2, sync: true }),
  )
}
