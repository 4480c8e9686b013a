import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { FatalError } from '#src/lib/errors.ts'

/** Linux's unit for CPU time in /proc; the same on all platforms that Node supports. */
const TICKS_PER_SECOND = 100

/** Throws FatalError if the system has no `/proc`. */
export function checkProc(): void {
  if (existsSync('/proc/self/statm')) return
  throw new FatalError('This reads the memory and CPU time of processes from /proc. Run it on Linux.')
}

/** Null for a process that has ended. */
function read(pid: number, file: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return null
  }
}

/** A number in the status of a process; sizes are in kB. 0 if the process has ended. */
function statusOf(pid: number, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(read(pid, 'status') ?? '')?.[1] ?? 0)
}

/** Current memory of a process, including code shared with others; 0 if it has ended. */
export function rssBytes(pid: number): number {
  return statusOf(pid, 'VmRSS') * 1024
}

/** Peak memory of a process since its start; 0 if it has ended. */
export function peakRssBytes(pid: number): number {
  return statusOf(pid, 'VmHWM') * 1024
}

/** User and system time of all threads since the start, without children. */
export function cpuSeconds(pid: number): number {
  return secondsIn(statOf(read(pid, 'stat')).slice(11, 13))
}

/** A zombie does not count as running. */
export function isRunning(pid: number): boolean {
  return !['', 'Z', 'X'].includes(statOf(read(pid, 'stat'))[0] ?? '')
}

/** The fields after the name, starting with the state. */
function statOf(text: string | null): string[] {
  return (text ?? '').slice((text ?? '').lastIndexOf(')') + 2).split(' ')
}

function secondsIn(ticks: readonly string[]): number {
  return ticks.reduce((sum, each) => sum + Number(each), 0) / TICKS_PER_SECOND
}

/** Returns how many descriptors a process has open; 0 if it has ended. */
export function fileDescriptors(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}

/** User and system time of a process and of its children that have ended. */
export function cpuSecondsWithChildren(pid: number): number {
  return secondsIn(statOf(read(pid, 'stat')).slice(11, 15))
}

/** Processes that its main thread started, including zombies. */
export function childrenOf(pid: number): number[] {
  const text = read(pid, `task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

/** Returns the memory of the largest process that the main thread of a process started; 0 without one. */
export function largestChildBytes(pid: number): number {
  return Math.max(0, ...childrenOf(pid).map(rssBytes))
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has already ended.
  }
}

/** User and system time of the processes that this one started and that have ended; null without `/proc`. */
export function endedChildrenCpuSeconds(): number | null {
  const ticks = statOf(read(process.pid, 'stat')).slice(13, 15)
  return ticks.length === 0 ? null : secondsIn(ticks)
}

/** A thread of a running process, with the CPU time that it has spent. */
export type Thread = { readonly id: number; readonly name: string; readonly cpuSeconds: number }

/** Oldest first. Empty if the process has ended, or without `/proc`. */
export function threadsOf(pid: number): Thread[] {
  return taskIds(pid).flatMap(id => {
    const text = read(pid, `task/${id}/stat`)
    if (text === null) return []
    const name = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'))
    return [{ id, name, cpuSeconds: secondsIn(statOf(text).slice(11, 13)) }]
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
