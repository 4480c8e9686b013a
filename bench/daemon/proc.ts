import { existsSync, readFileSync } from 'node:fs'
import { FatalError } from '#src/platform/errors.ts'

/** Of a page and of a clock tick, where Linux counts in them; the same on all that Node runs on. */
const PAGE_BYTES = 4096
const TICKS_PER_SECOND = 100

/** Throws FatalError where there is nothing to measure processes of others with. */
export function checkProc(): void {
  if (existsSync('/proc/self/statm')) return
  throw new FatalError("The bench of the daemon reads what processes use from Linux's /proc; run it there.")
}

/** Null for a process that has ended. */
function read(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return null
  }
}

/** What a process has in memory now, code that it shares with others included; 0 when it has ended. */
export function rssBytes(pid: number): number {
  return Number(read(pid, 'statm')?.split(' ')[1] ?? 0) * PAGE_BYTES
}

/** User and system time of all threads since its start; not that of its children. */
export function cpuSeconds(pid: number): number {
  const [user, system] = statOf(pid).slice(11, 13).map(Number)
  return ((user ?? 0) + (system ?? 0)) / TICKS_PER_SECOND
}

/** One that nobody has collected yet runs no more. */
export function isRunning(pid: number): boolean {
  return !['', 'Z', 'X'].includes(statOf(pid)[0] ?? '')
}

/** What stands behind the name, from the state on. */
function statOf(pid: number): string[] {
  const text = read(pid, 'stat') ?? ''
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Processes that its main thread started and that were not collected yet. */
export function childrenOf(pid: number): number[] {
  const text = read(pid, `task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}
