import { cp, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { readApiSettings, readSettings } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { measureRawLog } from '#src/core/rawlog/files.ts'
import type { Listener } from '#src/extras/hold.ts'
import { createLocalContext, holdCompany, openApi } from '#src/operate/open.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { sync } from '#src/sync.ts'
import { companyOf } from '../company/api.ts'
import { filesOf } from '../company/files.ts'
import { type Living, startLiving } from '../company/living.ts'
import { differences, type Place, pathsOf, placeOf, runAt } from '../company/place.ts'
import { asRow, type Figure, figure, median, megabytes, most, sum } from '../frame/figures.ts'
import { count, situation } from '../frame/situation.ts'

const DAY_HOURS = 24
const DAYS_A_YEAR = 365
const HOUR_MS = 3_600_000
/** In the middle of a month, so that a new month begins during the simulation. */
const START = Date.parse('2026-09-15T00:00:00Z')
/**
 * A world of 5,000 notices has 1,840 from its last 30 days: two and a half an hour. A tick adds half a notice
 * on average, so five ticks an hour continue at that rate. They also change about ten notices an hour.
 */
const NOTICES_FOR_A_TICK = 1000
/** Hundreds of segments are applied together: fewer would be the time of one group. */
const MANY_SEGMENTS = 500

export const month = situation({
  name: 'month',
  about:
    'A company that changes for a simulated month, with a run each hour: how its log, warehouse and snapshots grow, and how long a rebuild of a year would take. At the end, everything is compared with the company, and the warehouse with its log.',
  options: {
    notices: count('size of the company at the start', 5000),
    hours: count('simulated hours, with one run in each', 720),
  },
  async measure(bench, { notices, hours, seed }) {
    bench.step('generating the company')
    const { companies, sandbox } = await startLiving([companyOf({ notices, seed })], {
      start: new Date(START),
    })
    const company = companies[0] as Living
    const { world } = company
    const place = await placeOf(bench.directory, { ...company, url: sandbox.url })
    const paths = pathsOf(place)
    bench.step('first sync')
    await runOnce(place, START)
    const { segments: firstSegments } = await measureRawLog(paths.raw)
    const before = { ...place, env: { ...place.env, DATA_DIR: join(bench.directory, 'before') } }
    await cp(place.env.DATA_DIR, before.env.DATA_DIR, { recursive: true, verbatimSymlinks: true })
    const random = createRandom(`${seed} life`)
    const ticks = Math.max(1, Math.round(notices / NOTICES_FOR_A_TICK))
    const runs: Run[] = []
    const days: Day[] = []
    let changes = 0
    for (let hour = 1; hour <= hours; hour += 1) {
      for (let n = 1; n <= ticks; n += 1)
        changes += tick(world, random, new Date(START + (hour - 1 + n / ticks) * HOUR_MS)).length
      runs.push(await runOnce(place, START + hour * HOUR_MS))
      if (hour % DAY_HOURS > 0 && hour < hours) continue
      days.push({ hour, ...(await measureDisk(paths)) })
      bench.step(`${hour} of ${hours} hours`)
    }
    bench.step('rebuilding')
    const rebuilt = await runAt(place, 'rebuild')
    const { wallSeconds: firstSeconds } = await runAt(before, 'rebuild')
    bench.step('comparing with the log, and with the company')
    await runAt(place, 'doctor')
    await runAt(place, 'sync', ['--full'])
    const wrong = await differences(place, company)
    await sandbox.close()
    return [
      figure('runs', 'hourly runs', 0, runs.length),
      figure('run_seconds', 'a run, median, s', 2, median(runs.map(({ seconds }) => seconds))),
      figure('changes', 'changes of the company', 0, changes),
      figure('notices', 'notices at the end', 0, world.size),
      figure('loaded', 'analyses fetched', 0, sum(runs.map(({ loaded }) => loaded))),
      figure('wrong_notices', 'notices that differ from the company', 0, wrong.length, most(0)),
      figure('rebuild_seconds', 'rebuild, s', 2, rebuilt.wallSeconds),
      ...yearFigures(days, firstSegments, rebuilt.wallSeconds - firstSeconds),
      ...days.flatMap(rowOf),
    ]
  },
})

type Run = { readonly loaded: number; readonly seconds: number }

const SILENT: Listener = { progress: () => {}, note: () => {} }

/** Makes a run as a command does, but at any time, in this process. @throws Error unless it ends well. */
async function runOnce({ env }: Place, atMs: number): Promise<Run> {
  const { signal } = new AbortController()
  const at = new Date(atMs)
  const runId = at.toISOString().replace(/[-:]|\.\d+/g, '')
  const context = { ...createLocalContext(readSettings(env), SILENT, signal), now: () => at, runId }
  const api = openApi(readApiSettings(env), SILENT, signal)
  const startedMs = performance.now()
  const { report } = await holdCompany(context, SILENT, { what: 'bench' }, () =>
    sync(NEXT, { ...context, api }),
  ).finally(() => api.close())
  if (report.status !== 'ok') throw new Error(`A run failed: ${JSON.stringify(report)}`)
  return { loaded: report.loaded, seconds: (performance.now() - startedMs) / 1000 }
}

/** The size of a company on the disk, in bytes. */
type Disk = {
  readonly segments: number
  readonly raw: number
  readonly warehouse: number
  readonly snapshots: number
  /** Of all snapshots: a shared file counts once. */
  readonly all: number
  readonly latest: number
}
/** At the end of a day; the last one may be partial. */
type Day = Disk & { readonly hour: number }

async function measureDisk(paths: CompanyPaths): Promise<Disk> {
  const raw = await measureRawLog(paths.raw)
  const snapshots = (await readdir(snapshotsDirectory(paths.lake))).sort()
  const sizes = new Map<string, number>()
  let latest = 0
  for (const name of snapshots) {
    const files = await filesOf(join(snapshotsDirectory(paths.lake), name))
    latest = sum(files.map(({ bytes }) => bytes))
    for (const { inode, bytes } of files) sizes.set(inode, bytes)
  }
  return {
    segments: raw.segments,
    raw: raw.bytes,
    warehouse: (await stat(paths.warehouse)).size,
    snapshots: snapshots.length,
    all: sum([...sizes.values()]),
    latest,
  }
}

function rowOf({ hour, ...disk }: Day): Figure[] {
  const size = (label: keyof Disk) => figure(label, `${label}, MB`, 1, megabytes(disk[label]))
  return asRow('day', String(Math.ceil(hour / DAY_HOURS)), [
    figure('segments', 'segments', 0, disk.segments),
    ...[size('raw'), size('warehouse')],
    figure('snapshots', 'snapshots', 0, disk.snapshots),
    ...[size('all'), size('latest')],
  ])
}

/**
 * Estimates the figures of a year of such days, from the growth since the end of the first day.
 * @param seconds the part of a rebuild that the segments of the hourly runs take.
 */
function yearFigures(days: readonly Day[], firstSegments: number, seconds: number): Figure[] {
  const [first, last] = [days[0] as Day, days.at(-1) as Day]
  const count = last.segments - firstSegments
  const ms = (seconds * 1000) / count
  const daily = (of: (day: Day) => number) =>
    last.hour > first.hour ? ((of(last) - of(first)) / (last.hour - first.hour)) * DAY_HOURS : null
  const [segments, raw] = [daily(day => day.segments), daily(day => megabytes(day.raw))]
  const year = segments && (segments * DAYS_A_YEAR * ms) / 1000
  return [
    figure('segment_ms', '  for each segment of an hourly run, ms', 1, ms),
    figure('segments_a_day', 'segments a day', 1, segments),
    figure('raw_megabytes_a_day', 'raw log: MB a day', 3, raw),
    figure(
      'year_rebuild_seconds',
      'a year of such days: rebuild, s',
      0,
      year,
      most(120, count >= MANY_SEGMENTS),
    ),
  ]
}
