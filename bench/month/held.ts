import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { FatalError } from '#src/platform/errors.ts'

const STATUS = '/proc/self/status'

/** What this process holds; bytes. */
export type Held = {
  readonly rssBytes: number
  /** The highest since `forgetPeak`. */
  readonly peakRssBytes: number
  /** Of the RSS, what is backed by no file: heap, DuckDB's and other native memory. */
  readonly anonymousBytes: number
  readonly heapBytes: number
  readonly heapUsedBytes: number
  /** Memory outside of the heap that objects in it stand for, such as buffers. */
  readonly externalBytes: number
  readonly files: number
  readonly threads: number
}

/** Throws FatalError where there is nothing to measure a process with. */
export function checkHeld(): void {
  if (existsSync(STATUS)) return
  throw new FatalError("The bench of a month reads what its process holds from Linux's /proc; run it there.")
}

/** The peak is counted from now on; where the kernel does not allow that, from the start. */
export function forgetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {
    // Said above.
  }
}

/** Collects no garbage before: that is what a process holds. */
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
    // Without the one of the directory that is read.
    files: readdirSync('/proc/self/fd').length - 1,
    threads: number('Threads'),
  }
}
