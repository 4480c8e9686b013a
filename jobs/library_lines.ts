import type { Logger } from 'pino'

/** ioredis looks whether Redis is still loading; without the right to INFO it takes commands as they come. */
const EXPECTED = /^Skipping the ready check because INFO command fails/

/** What libraries write to the console becomes lines of the log, each once: those who read it expect JSON. */
export function logLibraryLines(log: Logger): void {
  const said = new Set<string>()
  const line = (...words: unknown[]) => {
    const text = words.map(String).join(' ').split('\n')[0] ?? ''
    if (EXPECTED.test(text) || said.has(text)) return
    said.add(text)
    log.warn(text)
  }
  for (const name of ['log', 'info', 'warn', 'error'] as const) console[name] = line
}
