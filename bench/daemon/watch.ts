import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent } from 'undici'
import { childrenOf, rssBytes } from './proc.ts'
import type { Worker } from './worker.ts'

const ASK_EVERY_MS = 20
const LOOP_EVERY_MS = 10
const SAMPLE_EVERY_MS = 100
/** A slower answer counts as failed. */
const ANSWER_WITHIN_MS = 5000
const POLL_MS = 1000

/** Response times of a worker's `/healthz`; milliseconds. */
export type Health = {
  readonly asked: number
  readonly failed: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** Peak memory of a worker: the daemon with the processes of its runs, and the daemon alone. */
export type Memory = {
  readonly peakBytes: number
  readonly daemonPeakBytes: number
  readonly maxRuns: number
}

/**
 * Requests `/healthz` of a worker at an interval, without waiting for earlier answers.
 * @param connections `kept` reuses open connections; `new` opens one for each request.
 */
export function watchHealth(
  { url }: Pick<Worker, 'url'>,
  connections: 'kept' | 'new' = 'kept',
): { end(): Promise<Health> } {
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
      return { asked: latencies.length, failed, p50: at(0.5), p99: at(0.99), max: at(1) }
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

/** Samples the memory of a worker and its runs. */
export function watchMemory({ pid }: Worker): { end(): Memory } {
  let [peakBytes, daemonPeakBytes, maxRuns] = [0, 0, 0]
  const sample = () => {
    const daemon = rssBytes(pid)
    const runs = childrenOf(pid).map(rssBytes)
    daemonPeakBytes = Math.max(daemonPeakBytes, daemon)
    peakBytes = Math.max(
      peakBytes,
      runs.reduce((sum, each) => sum + each, daemon),
    )
    maxRuns = Math.max(maxRuns, runs.filter(bytes => bytes > 0).length)
  }
  const timer = setInterval(sample, SAMPLE_EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      return { peakBytes, daemonPeakBytes, maxRuns }
    },
  }
}

/** The value that this share of the values does not exceed. Expects at least one value. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number
}

/** Waits until the workers' queue of runs is empty. */
export async function untilIdle(worker: Worker): Promise<void> {
  for (;;) {
    const text = await worker.metrics()
    const counts = [...text.matchAll(/^editais_queue_jobs\{queue="runs",state="([\w-]+)"\} (\d+)$/gm)]
    if (counts.length === 0) throw new Error(`/metrics has no counts of the queue:\n${text}`)
    const open = counts.filter(([, state]) => state !== 'completed' && state !== 'failed')
    if (open.every(([, , count]) => count === '0')) return
    await sleep(POLL_MS)
  }
}
