import { watch } from 'node:fs/promises'
import { type Thread, threadsOf } from '#tools/proc.ts'
import type { Api } from '../company/api.ts'
import { sum } from '../frame/figures.ts'

/** A full sync from its start to its exit; `load` is what follows the last analysis, up to publishing. */
export const STAGES = ['start', 'scan', 'fetch', 'load', 'publish'] as const
export type Stage = (typeof STAGES)[number]

/** CPU seconds by kind of thread, in each stage. */
export type CpuByThread = Readonly<Record<string, Readonly<Record<Stage, number>>>>

/** Threads end with their CPU time unread, so they are also read between the stages; often enough for seconds. */
const SAMPLE_MS = 50
/** libuv's own default; the bench does not change it. */
const POOL_THREADS = 4
const MAIN = 'main'
const POOL = 'pool: compression, statements, files'
const DUCKDB = 'DuckDB'
const V8 = 'V8: garbage, compiling'
/** Spent after the last sample: by threads that ended, and by all while the process exited. */
const UNSEEN = 'not sampled'

/**
 * Follows a full sync from outside: the API's requests and the first snapshot mark its stages. Start it with the
 * process, and end it when the process has exited.
 * @returns a function that returns null without `/proc`; `totalSeconds` is the CPU time of the whole process.
 */
export function watchStages(
  pid: number,
  about: { api: Api; notices: number; snapshots: string },
): (totalSeconds: number) => CpuByThread | null {
  const threads = watchThreads(pid)
  const ended = new AbortController()
  const follow = async () => {
    const { api, notices, snapshots } = about
    await api.reached({ kind: 'list', requests: 1 })
    threads.begin('scan')
    await api.reached({ kind: 'analysis', requests: 1 })
    threads.begin('fetch')
    await api.reached({ kind: 'analysis', requests: notices })
    threads.begin('load')
    for await (const _ of watch(snapshots, { signal: ended.signal })) return threads.begin('publish')
  }
  // A run that ends early fails by itself; then nothing marks the stages.
  follow().catch(() => {})
  return totalSeconds => {
    ended.abort()
    return threads.end(totalSeconds)
  }
}

function watchThreads(pid: number) {
  const spent = new Map<string, Record<Stage, number>>()
  const seen = new Map<number, number>()
  let stage: Stage = 'start'

  function add(kind: string, seconds: number): void {
    const row = spent.get(kind) ?? { start: 0, scan: 0, fetch: 0, load: 0, publish: 0 }
    row[stage] += seconds
    spent.set(kind, row)
  }

  function sample(): void {
    const threads = threadsOf(pid)
    const pool = threads.filter(({ name }) => name === 'libuv-worker').slice(0, POOL_THREADS)
    for (const thread of threads) {
      const { id, cpuSeconds } = thread
      add(kindOf(thread, pid, pool), cpuSeconds - (seen.get(id) ?? 0))
      seen.set(id, cpuSeconds)
    }
  }

  const timer = setInterval(sample, SAMPLE_MS).unref()
  return {
    begin(next: Stage): void {
      sample()
      stage = next
    },
    end(totalSeconds: number): CpuByThread | null {
      clearInterval(timer)
      if (seen.size === 0) return null
      add(UNSEEN, Math.max(0, totalSeconds - sum([...seen.values()])))
      return Object.fromEntries(spent)
    },
  }
}

/** DuckDB does not name its threads: they bear the name of the thread that started them. */
function kindOf({ id, name }: Thread, pid: number, pool: readonly Thread[]): string {
  if (id === pid) return MAIN
  if (pool.some(thread => thread.id === id)) return POOL
  if (name === 'libuv-worker' || name === 'node-MainThread') return DUCKDB
  if (['node-V8Worker', 'DelayedTaskSche', 'SignalInspector'].includes(name)) return V8
  return name
}
