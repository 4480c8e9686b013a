import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { FatalError } from '#src/platform/errors.ts'

/** Linux's units for memory and CPU time in /proc; the same on all platforms that Node supports. */
const PAGE_BYTES = 4096
const TICKS_PER_SECOND = 100

/** Throws FatalError if the system has no `/proc`. */
export function checkProc(): void {
  if (existsSync('/proc/self/statm')) return
  throw new FatalError('This bench reads the memory and CPU time of processes from /proc. Run it on Linux.')
}

/** Null for a process that has ended. */
function read(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return null
  }
}

/** Current memory of a process, including code shared with others; 0 if it has ended. */
export function rssBytes(pid: number): number {
  return Number(read(pid, 'statm')?.split(' ')[1] ?? 0) * PAGE_BYTES
}

/** User and system time of all threads since the start, without children. */
export function cpuSeconds(pid: number): number {
  const [user, system] = statOf(pid).slice(11, 13).map(Number)
  return ((user ?? 0) + (system ?? 0)) / TICKS_PER_SECOND
}

/** A zombie does not count as running. */
export function isRunning(pid: number): boolean {
  return !['', 'Z', 'X'].includes(statOf(pid)[0] ?? '')
}

/** The fields after the name, starting with the state. */
function statOf(pid: number): string[] {
  const text = read(pid, 'stat') ?? ''
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Processes that its main thread started, including zombies. */
export function childrenOf(pid: number): number[] {
  const text = read(pid, `task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

/** User and system time of the processes that this one started and that have ended; null without `/proc`. */
export function endedChildrenCpuSeconds(): number | null {
  const [user, system] = statOf(process.pid).slice(13, 15).map(Number)
  return user === undefined || system === undefined ? null : (user + system) / TICKS_PER_SECOND
}

/** A thread of a running process, with the CPU time that it has spent. */
export type Thread = { readonly id: number; readonly name: string; readonly cpuSeconds: number }

/** Oldest first. Empty if the process has ended, or without `/proc`. */
export function threadsOf(pid: number): Thread[] {
  return taskIds(pid).flatMap(id => {
    const text = read(pid, `task/${id}/stat`)
    if (text === null) return []
    const end = text.lastIndexOf(')')
    const [user, system] = text
      .slice(end + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number)
    const name = text.slice(text.indexOf('(') + 1, end)
    return [{ id, name, cpuSeconds: ((user ?? 0) + (system ?? 0)) / TICKS_PER_SECOND }]
  })
}

function taskIds(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map(Number)
      .sort((a, b) => a - b)
  } catch {
    return []
  }
}
