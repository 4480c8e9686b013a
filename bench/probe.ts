import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/*
 * Preloaded into the measured process (`node --import`): watches its event loop from before its first
 * module, and on exit writes the process's cost to the file that PROBE_FILE names.
 */

/** The cost of a process, from its start to its exit. */
export type Cost = {
  readonly cpuUserSeconds: number
  readonly cpuSystemSeconds: number
  readonly peakRssBytes: number
  /** How much later than due a timer of 10 ms fired. */
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number }
}

const RESOLUTION_MS = 10

const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
loop.enable()

process.once('exit', () => {
  loop.disable()
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  // The histogram records the time between two timers, including the resolution.
  const delayMs = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS)
  const cost: Cost = {
    cpuUserSeconds: userCPUTime / 1e6,
    cpuSystemSeconds: systemCPUTime / 1e6,
    peakRssBytes: maxRSS * 1024,
    loopDelayMs: {
      p50: delayMs(loop.percentile(50)),
      p99: delayMs(loop.percentile(99)),
      max: delayMs(loop.max),
    },
  }
  writeFileSync(process.env.PROBE_FILE as string, JSON.stringify(cost))
})
