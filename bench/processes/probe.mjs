import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/*
 * Preloaded into a measured process (`node --import`): watches its event loop from before its first module, and on
 * exit writes what it cost (`Probed` in cost.ts) to the file that PROBE_FILE names. In JavaScript, because stripping
 * types would cost as much as a short command.
 */

const RESOLUTION_MS = 10

const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
loop.enable()

process.once('exit', () => {
  loop.disable()
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  // The histogram records the time between two timers, including the resolution.
  const delayMs = nanoseconds => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS)
  const probed = {
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
    peakRssBytes: maxRSS * 1024,
    loopDelayMs: {
      p50: delayMs(loop.percentile(50)),
      p99: delayMs(loop.percentile(99)),
      max: delayMs(loop.max),
    },
  }
  writeFileSync(process.env.PROBE_FILE, JSON.stringify(probed))
})
