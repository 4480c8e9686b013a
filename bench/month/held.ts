import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { FatalError } from '#src/platform/errors.ts'

const STATUS = '/proc/self/status'

/** Memory (bytes), open files and threads of this process. */
export type Held = {
  readonly rssBytes: number
  /** The highest since `forgetPeak`. */
  readonly peakRssBytes: number
  /** Of the RSS, memory not backed by a file: heap, DuckDB's and other native memory. */
  readonly anonymousBytes: number
  readonly heapBytes: number
  readonly heapUsedBytes: number
  /** Memory outside the heap that belongs to objects in it, such as buffers. */
  readonly externalBytes: number
  readonly files: number
  readonly threads: number
}

/** Throws FatalError if the system has no `/proc`. */
export function checkHeld(): void {
  if (existsSync(STATUS)) return
  throw new FatalError('The bench of a month reads the memory of its process from /proc. Run it on Linux.')
}

/** Counts the peak from now on; if the kernel does not allow that, from the process's start. */
export function forgetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {
    // See above.
  }
}

/** Does not collect garbage first: garbage is part of what a process holds. */
export function readHeld(): Held {
  const status = readFileSync(STATUS, 'utf8')
  const number = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
  const { heapTotal, heapUsed, external } = process.memoryUsage()
  return {
    rssBytes: number('VmRSS') * 1024,
    peakRssBytes: number('VmHWM') * 1024,
    anonymousBytes: number('RssAnon') * 1024,
    heapBytes: heapTotal,
    heapUsedBytes: heapUsed,
    externalBytes: external,
    // Except the one that reads this directory.
    files: readdirSync('/proc/self/fd').length - 1,
    threads: number('Threads'),
  }
}
