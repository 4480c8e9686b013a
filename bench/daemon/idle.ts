import { setTimeout as sleep } from 'node:timers/promises'
import type { Configured, Place } from './place.ts'
import { cpuSeconds, rssBytes } from './proc.ts'
import { startWorker } from './worker.ts'

/** A worker without work. */
export type Idle = {
  /** After the measured time without a run. */
  readonly rssBytes: number
  /** As long after a run. */
  readonly rssAfterRunBytes: number
  /** Share of one core, before that run or after it, whichever is higher. */
  readonly cpuShare: number
}

/** Expects that all companies were synced, so nothing is due. Takes three times `seconds`. */
export async function measureIdle(options: {
  companies: readonly Configured[]
  place: Place
  seconds: number
  onStep: (step: string) => void
}): Promise<Idle> {
  const { companies, place, seconds, onStep } = options
  onStep('idle')
  const worker = await startWorker(place)
  await sleep(seconds * 500)
  const before = rssBytes(worker.pid)
  const shareBefore = await cpuShare(worker.pid, seconds)
  onStep('idle after a run')
  await Promise.all([worker.next(), worker.requestSync((companies[0] as Configured).slug)])
  await sleep(seconds * 500)
  const after = rssBytes(worker.pid)
  const shareAfter = await cpuShare(worker.pid, seconds)
  if (worker.runs.length !== 1)
    throw new Error(`The worker was not idle: ${worker.runs.length} runs instead of 1`)
  await worker.stop()
  return { rssBytes: before, rssAfterRunBytes: after, cpuShare: Math.max(shareBefore, shareAfter) }
}

async function cpuShare(pid: number, seconds: number): Promise<number> {
  const fromMs = performance.now()
  const before = cpuSeconds(pid)
  await sleep(seconds * 1000)
  return (cpuSeconds(pid) - before) / ((performance.now() - fromMs) / 1000)
}
