import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/*
 * Preloaded into a measured process (`node --import`): watches its event loop from before its first module, and on
 * exit writes what it cost (`Probed` in costs.ts) to the file that PROBE_FILE names. In JavaScript, because stripping
 * types would cost as much as a short command.
 */

const RESOLUTION_MS = 10

const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
loop.enable()

process.once('exit', () => {
  loop.disable()
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  const probed = {
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
    peakRssBytes: maxRSS * 1024,
    // The histogram records the time between two timers, including the resolution.
    loopDelayMs: Math.max(0, loop.percentile(99) / 1e6 - RESOLUTION_MS),
  }
  writeFileSync(process.env.PROBE_FILE, JSON.stringify(probed))
})
