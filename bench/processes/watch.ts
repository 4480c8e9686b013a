import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Agent } from 'undici'
import { percentile } from '../frame/figures.ts'

const ASK_EVERY_MS = 20
const LOOP_EVERY_MS = 10
const SAMPLE_EVERY_MS = 50
/** A slower answer counts as failed. */
const ANSWER_WITHIN_MS = 5000

/** Response times of a service's `/healthz`; milliseconds. */
export type Health = {
  readonly failed: number
  readonly p50: number
  readonly p99: number
}

/**
 * Requests `/healthz` at an interval, without waiting for earlier answers.
 * @param connections `kept` reuses open connections; `new` opens one for each request.
 */
export function watchHealth(url: string, connections: 'kept' | 'new' = 'kept'): { end(): Promise<Health> } {
  const dispatcher = new Agent({
    // 0: no connection is kept open.
    pipelining: connections === 'kept' ? 1 : 0,
    connect: { timeout: ANSWER_WITHIN_MS },
    bodyTimeout: ANSWER_WITHIN_MS,
    headersTimeout: ANSWER_WITHIN_MS,
  })
  const latencies: number[] = []
  const pending = new Set<Promise<void>>()
  let failed = 0
  const ask = async () => {
    const fromMs = performance.now()
    try {
      const { statusCode, body } = await dispatcher.request({ origin: url, path: '/healthz', method: 'GET' })
      await body.text()
      if (statusCode !== 200) failed += 1
    } catch {
      failed += 1
    }
    latencies.push(performance.now() - fromMs)
  }
  const timer = setInterval(() => {
    const asking = ask().finally(() => pending.delete(asking))
    pending.add(asking)
  }, ASK_EVERY_MS)
  return {
    async end() {
      clearInterval(timer)
      await Promise.all(pending)
      await dispatcher.close()
      const at = (share: number) => percentile(latencies, share)
      return { failed, p50: at(0.5), p99: at(0.99) }
    },
  }
}

/** Delay of our own event loop: the 99th percentile, in milliseconds. */
export function watchOwnDelay(): { end(): number } {
  const loop = monitorEventLoopDelay({ resolution: LOOP_EVERY_MS })
  loop.enable()
  return {
    end() {
      loop.disable()
      // The histogram records the time between two timers.
      return Math.max(0, loop.percentile(99) / 1e6 - LOOP_EVERY_MS)
    },
  }
}

/** Samples a value, such as the memory of a process; the end returns the greatest. */
export function watchPeak(read: () => number): { end(): number } {
  let peak = read()
  const timer = setInterval(() => {
    peak = Math.max(peak, read())
  }, SAMPLE_EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      return peak
    },
  }
}
