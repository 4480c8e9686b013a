import type { Logger } from 'pino'

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
