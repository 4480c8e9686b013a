import { fstatSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isatty } from 'node:tty'
import pino, { type DestinationStream, type Logger } from 'pino'
import type { LogLevel } from './log_level.ts'

const STDERR = 2
/** Of lines that nobody has read yet: some thousands. More are dropped, and counted. */
const MAX_UNREAD_BYTES = 1024 * 1024
/** So long the last lines may take at the end. */
const FLUSH_WITHIN_MS = 1000
const FLUSH_LOOK_MS = 10

/** What ended badly is logged also if only errors are. */
export const LEVEL_OF_STATUS = { ok: 'info', partial: 'warn', interrupted: 'warn', failed: 'error' } as const

/**
 * Lines on stderr, as JSON; stdout belongs to a command's result. `about` is in every line: company, run_id,
 * job. No request headers are ever logged; the redaction is for the day somebody logs an object that holds some.
 */
export function createLogger(
  level: LogLevel,
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
 * The same logger for thousands of lines a second whose fields are all texts and numbers: to look into each of them for
 * secrets takes four fifths of the time of a line.
 */
export function withFlatLines(log: Logger): Logger {
  return log.child({}, { redact: { paths: [...SECRETS, '["x-api-key"]'], remove: true } })
}

const SECRETS = ['apiKey', 'authorization', 'adminToken', 'webhookUrl', 'password']

/** Lines that were dropped because whoever reads stderr was too slow, or had gone. */
let dropped = 0
let isWatched = false

export function droppedLines(): number {
  return dropped
}

/** A file takes each line at once, and nobody need read it. */
function fileStderr(): DestinationStream {
  const file = pino.destination({ fd: STDERR, sync: true })
  // The disk is full: lines are lost, and nothing else.
  file.on('error', () => {
    dropped += 1
  })
  return file
}

/**
 * Node's stderr does not wait for the reader of a pipe, but keeps what was not read: so it is bounded here. A log
 * that nobody reads must neither stop a server or a run, nor fill the memory.
 */
function boundedStderr(): DestinationStream {
  const { stderr } = process
  if (!isWatched) {
    isWatched = true
    // The reader has gone: lines are lost, and nothing else.
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

/** A process that is started with our stderr makes it blocking, for us as well: libuv does that for any child. */
function stayNonBlocking(): void {
  const { _handle: handle } = process.stderr as { _handle?: { setBlocking?: (isBlocking: boolean) => void } }
  handle?.setBlocking?.(false)
}

function gapLine(count: number): string {
  const time = new Date().toISOString()
  const msg = `${count} log lines were dropped here because stderr was not read in time.`
  return `${JSON.stringify({ level: 'warn', time, dropped: count, msg })}\n`
}

/** Waits a little until what was logged is written; for a process that ends itself. */
export async function flushLog(): Promise<void> {
  const deadlineMs = performance.now() + FLUSH_WITHIN_MS
  while (process.stderr.writableLength > 0 && performance.now() < deadlineMs) await sleep(FLUSH_LOOK_MS)
}

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
