import { isatty } from 'node:tty'
import type { DestinationStream, Logger } from 'pino'
import type { Settings } from '#config/settings.ts'
import { makePrintable, makePrintableLines } from '#schema/text_key.ts'
import type { Retry } from '#src/core/api/client.ts'
import type { Listener } from '#src/extras/hold.ts'
import { formatSeconds, pluralize } from '#src/lib/count.ts'
import { createLogger } from '#src/lib/log.ts'

export const STAGES = ['open', 'scan', 'fetch', 'load', 'publish'] as const
export type Stage = (typeof STAGES)[number]
export const TITLES: Record<Stage, string> = {
  open: 'Open the warehouse',
  scan: 'Scan the list',
  fetch: 'Fetch analyses',
  load: 'Load into the warehouse',
  publish: 'Publish the snapshot',
}
/** The log must show that a long run is alive, not each of its steps. For a short run, its end is enough. */
const LOG_INTERVAL_MS = 5000
/** An API that is down makes many requests fail, each again and again. */
const RETRY_INTERVAL_MS = 60_000

/** Logs the progress of a run. */
export function logListener(log: Logger, nowMs: () => number): Listener {
  const beganMs = nowMs()
  const loggedAtMs = new Map<Stage, number>()
  let retriedAtMs = Number.NEGATIVE_INFINITY
  return {
    progress({ stage, done, total, note }) {
      // If progress of a stage was logged, its end is logged, too.
      const complete = total > 0 && done === total && loggedAtMs.has(stage)
      if (!complete && nowMs() - (loggedAtMs.get(stage) ?? beganMs) < LOG_INTERVAL_MS) return
      loggedAtMs.set(stage, nowMs())
      log.info({ stage, done, ...(total > 0 ? { total } : {}) }, note ?? TITLES[stage])
    },
    note: text => log.warn(text),
    retry(retry) {
      if (nowMs() - retriedAtMs < RETRY_INTERVAL_MS) return
      retriedAtMs = nowMs()
      log.warn(describeRetry(retry, nowMs()))
    },
  }
}

/** Says which request failed and why, and for how long it is sent again. */
export function describeRetry({ path, reason, againMs, untilMs }: Retry, nowMs: number): string {
  const again = againMs >= 50 ? `again in ${formatSeconds(againMs / 1000)}` : 'again now'
  const text = `${path}: ${reason}; ${again}`
  return untilMs === null
    ? text
    : `${text}, for at most ${formatSeconds(Math.max(0, untilMs - nowMs) / 1000)} more`
}

const STDERR = 2

/** Returns a logger for interactive use: colours on a terminal, JSON elsewhere. */
export async function openLog(
  level: Settings['logLevel'],
  about: Readonly<Record<string, string>>,
): Promise<Logger> {
  if (!isatty(STDERR)) return createLogger(level, about)
  return createLogger(level, about, await formatForTerminal(STDERR))
}

/**
 * Formats log lines for a terminal: a sentence per entry, in colours and local time, without the fields that only programs need,
 * and without characters of foreign texts that a terminal would obey or hide.
 */
export async function formatForTerminal(
  destination: number | NodeJS.WritableStream,
): Promise<DestinationStream> {
  // Loaded only for a terminal.
  const { default: pretty } = await import('pino-pretty')
  const stream = pretty({
    destination,
    sync: true,
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss',
    include: 'time,level',
    messageFormat: (log, key) =>
      makePrintable(`${log.company ? `${log.company}: ` : ''}${composeSentence(log, String(log[key]))}`),
  })
  return { write: line => void stream.write(makePrintableLines(line)) }
}

/** Fields of a line that its sentence has already, or that only programs need. */
const HIDDEN = ['time', 'level', 'msg', 'company', 'worker', 'run_id', 'job', 'audit']

/** Returns a line as a sentence: that of a run or an answer by its fields, any other with its short fields behind it. */
function composeSentence(log: Readonly<Record<string, unknown>>, message: string): string {
  const { status, listed, added, changed, loaded, failed, error, seconds, method, path, ms } = log
  if (typeof listed === 'number') {
    const counts = [
      pluralize(listed, 'notice'),
      `${added} new`,
      `${changed} changed`,
      `${loaded} analyses loaded`,
    ]
    const missed = Number(failed) > 0 ? [`${failed} failed`] : []
    const time = formatSeconds(Number(seconds))
    return `Run ${status}: ${[...counts, ...missed].join(', ')}, in ${time}.${error ? ` ${error}` : ''}`
  }
  if (typeof path === 'string' && status !== undefined) return `${method} ${path}: ${status}, ${ms} ms`
  const others = Object.entries(log).flatMap(([name, value]) =>
    HIDDEN.includes(name) || typeof value === 'object' ? [] : [`${name} ${value}`],
  )
  return others.length === 0 ? message : `${message} (${others.join(', ')})`
}
