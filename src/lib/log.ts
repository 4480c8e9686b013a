import { fstatSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pino, { type DestinationStream, type LevelWithSilent, type Logger } from 'pino'
import { pluralize } from './count.ts'

const STDERR = 2
/** Bound for unread lines, some thousands. Further lines are dropped and counted. */
const MAX_UNREAD_BYTES = 1024 * 1024
/** At exit, how long to wait for the last lines to be written. */
const FLUSH_WITHIN_MS = 1000
const FLUSH_LOOK_MS = 10

/** Log level of a run that ended with this status. A failed run is logged even at level `error`. */
export const LEVEL_OF_STATUS = { ok: 'info', partial: 'warn', interrupted: 'warn', failed: 'error' } as const

/**
 * Writes JSON lines to stderr; stdout is for a command's result. `about` is in every line: company, run_id,
 * job. Request headers are never logged; the redaction is a safeguard in case an object with headers is logged.
 */
export function createLogger(
  level: LevelWithSilent,
  about: Readonly<Record<string, string>>,
  destination: DestinationStream = fstatSync(STDERR).isFile() ? fileStderr() : boundedStderr(),
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

/**
 * Returns the logger for thousands of lines a second whose fields are all strings and numbers: it does not search nested fields
 * for secrets, which takes four fifths of the time of a line.
 */
export function withFlatLines(log: Logger): Logger {
  return log.child({}, { redact: { paths: [...SECRETS, '["x-api-key"]'], remove: true } })
}

const SECRETS = ['apiKey', 'authorization', 'adminToken', 'webhookUrl', 'password']

/** Lines dropped because the reader of stderr was too slow or gone. */
let dropped = 0
let isWatched = false

export function countDroppedLines(): number {
  return dropped
}

/** Opens stderr as a destination that is a file: it takes each line at once and needs no reader. */
function fileStderr(): DestinationStream {
  const file = pino.destination({ fd: STDERR, sync: true })
  // If the disk is full, only log lines are lost.
  file.on('error', () => {
    dropped += 1
  })
  return file
}

/**
 * Creates a stream to stderr with a bounded buffer: Node's stderr does not wait for the reader of a pipe but buffers unread
 * lines. An unread log must neither block a server or a run nor fill the memory.
 */
function boundedStderr(): DestinationStream {
  const { stderr } = process
  if (!isWatched) {
    isWatched = true
    // If the reader is gone, only log lines are lost.
    stderr.on('error', () => {
      dropped += 1
    })
  }
  let gap = 0
  return {
    write(line) {
      if (stderr.writableLength + line.length > MAX_UNREAD_BYTES) {
        gap += 1
        dropped += 1
        return
      }
      stayNonBlocking()
      stderr.write(gap > 0 ? `${gapLine(gap)}${line}` : line)
      gap = 0
    },
  }
}

/** Keeps our stderr non-blocking: libuv makes it blocking for any child process that inherits it. */
function stayNonBlocking(): void {
  const { _handle: handle } = process.stderr as { _handle?: { setBlocking?: (isBlocking: boolean) => void } }
  handle?.setBlocking?.(false)
}

function gapLine(count: number): string {
  const time = new Date().toISOString()
  const msg = `${pluralize(count, 'log line')} dropped here because stderr was not read in time.`
  return `${JSON.stringify({ level: 'warn', time, dropped: count, msg })}\n`
}

/** Waits briefly until the log is written; for a process that is about to exit. */
export async function flushLog(): Promise<void> {
  const deadlineMs = performance.now() + FLUSH_WITHIN_MS
  while (process.stderr.writableLength > 0 && performance.now() < deadlineMs) await sleep(FLUSH_LOOK_MS)
}

/** ioredis checks whether Redis is still loading; without permission for INFO it skips the check. */
const EXPECTED = /^Skipping the ready check because INFO command fails/

/** Turns what libraries write to the console into log lines, each once: readers of the log expect JSON. */
export function logLibraryLines(log: Logger): void {
  const logged = new Set<string>()
  const line = (...words: unknown[]) => {
    const text = words.map(String).join(' ').split('\n')[0] ?? ''
    if (EXPECTED.test(text) || logged.has(text)) return
    logged.add(text)
    log.warn(text)
  }
  for (const name of ['log', 'info', 'warn', 'error'] as const) console[name] = line
}
