import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { cpuSecondsWithChildren, fileDescriptors, largestChildBytes, rssBytes } from '#tools/proc.ts'
import { companiesOf, startApi } from '../company/api.ts'
import { filesOf } from '../company/files.ts'
import { pathsOf, placeOfAll } from '../company/place.ts'
import { asRow, type Figure, figure, least, megabytes, most, percentile, sum } from '../frame/figures.ts'
import { count, situation } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'
import { watchHealth } from '../processes/watch.ts'
import { startWorker, untilSynced, type Worker } from '../processes/worker.ts'

const SAMPLE_EVERY_MS = 5000
/** Looking at the files of each company must not become the work that is measured. */
const SAMPLE_EVERY_MS_PER_COMPANY = 50
/** Snapshots are removed soon, so that the disk becomes steady within the time that is measured. */
const KEEP = '1m'
/** The beginning, in which caches fill, is not compared. */
const PARTS = 5
/** The share of the samples of a part that its value is not exceeded by. */
const BUSY = 0.9
/** How much more than in its second part a worker may hold in its last one. */
const GROWTH = 1.1

type Sample = {
  readonly rss: number
  readonly largestRun: number
  readonly descriptors: number
  readonly redisBytes: number
  readonly redisKeys: number
  /** Without the raw log, which keeps all that was ever received. */
  readonly diskBytes: number
  readonly diskFiles: number
}

const NAMES: Readonly<Record<keyof Sample, readonly [label: string, unit: 'MB' | 'count']>> = {
  rss: ['RSS of the worker, MB', 'MB'],
  largestRun: ['RSS of its largest run, MB', 'MB'],
  descriptors: ['descriptors of the worker', 'count'],
  redisBytes: ['memory of Redis, MB', 'MB'],
  redisKeys: ['keys in Redis', 'count'],
  diskBytes: ['disk without the raw log, MB', 'MB'],
  diskFiles: ['files without the raw log', 'count'],
}

export const steady = situation({
  name: 'steady',
  about:
    'A worker (npm start) whose companies are all due at once, and then change and run all the time: what a run costs, and whether it answers meanwhile. What it holds in memory, descriptors, Redis and on the disk must not grow: compares the last fifth of the time with the second one.',
  options: {
    companies: count('number of companies', 20),
    notices: count('size of each company', 100),
    every: count('seconds between two runs of a company: below 60, or whole minutes', 20),
    changes: count('notices of a company that change between two runs', 4),
    seconds: count('how long it is measured', 900, 60),
  },
  needsProc: true,
  async enter({ every }) {
    cronOf(every)
  },
  async measure(bench, { companies: number, notices, every, changes, seconds, seed }) {
    const redis = await startRedis(join(bench.directory, 'redis'))
    const companies = companiesOf(number, { notices, seed })
    const api = await startApi(companies)
    const place = await placeOfAll(await bench.folder('companies'), companies, {
      API_BASE_URL: api.url,
      REDIS_URL: redis.url,
      SYNC_CRON: cronOf(every),
      SNAPSHOT_KEEP: KEEP,
    })
    const worker = await startWorker(place)
    const client = new Redis(redis.url)
    const samples: Sample[] = []
    const places = companies.map(({ slug }) => pathsOf(place, slug))
    const watched = watchHealth(worker.url)
    await untilSynced(worker, companies)
    const firstSeconds = worker.seconds()
    const [ranBefore, cpuBefore] = [worker.log.runs.length, cpuSecondsWithChildren(worker.pid)]
    let changeMs = Date.now()
    for (const endMs = changeMs + seconds * 1000; Date.now() < endMs; ) {
      if (Date.now() >= changeMs) {
        await api.change(changes / notices)
        changeMs += every * 1000
      }
      await sleep(Math.max(SAMPLE_EVERY_MS, number * SAMPLE_EVERY_MS_PER_COMPANY))
      samples.push({
        rss: rssBytes(worker.pid),
        largestRun: largestChildBytes(worker.pid),
        descriptors: fileDescriptors(worker.pid),
        redisBytes: Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]),
        redisKeys: await client.dbsize(),
        ...(await diskOf(places)),
      })
      bench.step(`${worker.log.runs.length} runs, ${Math.round((endMs - Date.now()) / 1000)} s left`)
    }
    const { runs, errors } = worker.log
    const secondsPerRun = (cpuSecondsWithChildren(worker.pid) - cpuBefore) / (runs.length - ranBefore)
    const bad = runs.filter(({ status }) => status !== 'ok')
    const health = await watched.end()
    const metricsSeconds = await secondsOfMetrics(worker)
    const stopped = await worker.stop()
    await api.close()
    client.disconnect()
    await redis.close()
    return [
      figure('first_seconds', 'all companies for the first time, s', 1, firstSeconds),
      figure('runs', 'runs that ended', 0, runs.length, least(2 * number)),
      figure('run_cpu_seconds', 'CPU of worker and runs, s per run', 2, secondsPerRun),
      figure('bad_runs', 'runs that were not ok', 0, bad.length, most(0)),
      figure('errors', 'errors in the log', 0, errors.length, most(0)),
      figure('health_p99_ms', '/healthz: p99, ms', 1, health.p99, most(100)),
      figure('health_failed', '/healthz: unanswered or not 200', 0, health.failed, most(0)),
      figure('metrics_seconds', '/metrics, s', 3, metricsSeconds),
      figure('stop_seconds', 'SIGTERM to exit, s', 2, stopped.seconds, most(10)),
      figure('left_behind', 'processes left behind', 0, stopped.leftBehind, most(0)),
      ...(Object.keys(NAMES) as (keyof Sample)[]).flatMap(name => compare(name, samples)),
    ]
  },
})

async function secondsOfMetrics(worker: Worker): Promise<number> {
  const fromMs = performance.now()
  await worker.metrics()
  return (performance.now() - fromMs) / 1000
}

function cronOf(seconds: number): string {
  if (seconds < 60) return `*/${seconds} * * * * *`
  if (seconds % 60 === 0 && seconds < 3600) return `0 */${seconds / 60} * * * *`
  throw new FatalError(
    '--every is a number of seconds below 60, or of whole minutes below an hour.',
    EXIT.usage,
  )
}

/** Shows a size in each part of the time, and judges how it grew from the second part to the last. */
function compare(name: keyof Sample, samples: readonly Sample[]): Figure[] {
  const [label, unit] = NAMES[name]
  const parts = Array.from({ length: PARTS }, (_, part) => {
    const at = (share: number) => Math.floor((share / PARTS) * samples.length)
    // Between two runs there is none.
    const values = samples.slice(at(part), at(part + 1)).map(sample => sample[name])
    return percentile(values, BUSY)
  })
  const [second, last] = [parts[1], parts.at(-1)] as [number, number]
  const shown = (value: number) => (unit === 'MB' ? megabytes(value) : value)
  return asRow('what the worker holds', label, [
    ...parts.map((value, part) => figure(`part_${part + 1}`, `part ${part + 1}`, 1, shown(value))),
    figure('growth', 'last / second', 2, last / second, most(GROWTH)),
  ])
}

/** Measures what companies take on the disk; a file with several names counts once. */
async function diskOf(places: readonly CompanyPaths[]): Promise<Pick<Sample, 'diskBytes' | 'diskFiles'>> {
  const files = (await Promise.all(places.map(({ root }) => filesOf(root)))).flat()
  const others = new Map(files.filter(({ path }) => !path.startsWith('raw/')).map(file => [file.inode, file]))
  return { diskBytes: sum([...others.values()].map(({ bytes }) => bytes)), diskFiles: others.size }
}
