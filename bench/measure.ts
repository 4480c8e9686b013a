import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { companyPaths } from '#src/store/company.ts'
import { latestLink, readManifest, snapshotsDirectory } from '#src/store/lake/manifest.ts'
import { sealedSegments, segmentPath } from '#src/store/rawlog/files.ts'
import type { RunReport } from '#src/store/run_report.ts'
import { commandOf } from './command.ts'
import type { FetchFloor } from './floor_fetch.ts'
import type { LoadFloor } from './floor_load.ts'
import type { Cost } from './probe.ts'
import { type Ended, run, type Server } from './processes.ts'
import type { Counters } from './server.ts'

export const CHANGED_SHARE = 0.005
const COMPANY = 'bench'
const SOURCE_TIMEZONE = 'America/Sao_Paulo'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const PROBE = here('probe.ts')

/** One run of the sync: its report, its cost, and the requests that the API received. */
export type SyncRun = Ended & {
  readonly report: RunReport
  readonly cost: Cost
  readonly asked: Counters
  readonly snapshotsWritten: number
}

/** All measurements of one company, made one after another. */
export type Measured = {
  readonly full: SyncRun
  readonly fetchFloor: FetchFloor
  readonly loadFloor: LoadFloor
  /** The same with every core; null if the sync already uses all of them. */
  readonly loadFloorAllThreads: LoadFloor | null
  readonly unchanged: SyncRun
  readonly changed: SyncRun
}

export type MeasureOptions = {
  readonly server: Server
  readonly notices: number
  readonly apiKey: string
  readonly concurrency: number
  /** An empty directory for everything that is written. */
  readonly directory: string
  readonly onStep: (step: string) => void
}

/**
 * A full sync into an empty warehouse, its floors, then a sync with nothing changed and one with some
 * notices changed.
 * @throws Error if a run did not do the expected work, or a floor did not do the same work.
 */
export async function measure(options: MeasureOptions): Promise<Measured> {
  const { server, notices, onStep } = options
  onStep('full sync')
  const full = await syncOnce(options, ['--full'])
  expectRun(full, { loaded: notices })
  onStep('floors')
  const floors = await measureFloors(options, full)
  onStep('nothing changed')
  const unchanged = await syncOnce(options, [])
  expectRun(unchanged, { loaded: 0 })
  onStep('some changed')
  const count = await server.change(CHANGED_SHARE)
  const changed = await syncOnce(options, [])
  expectRun(changed, { loaded: count })
  return { full, ...floors, unchanged, changed }
}

const dataDirectory = (options: MeasureOptions) => join(options.directory, 'data')
const pathsOf = (options: MeasureOptions) => companyPaths(dataDirectory(options), COMPANY)

async function syncOnce(options: MeasureOptions, args: readonly string[]): Promise<SyncRun> {
  const { server, directory } = options
  const probeFile = join(directory, 'probe.json')
  const snapshotsBefore = await countSnapshots(options)
  await server.counters()
  const command = await commandOf('sync')
  const ended = await run(command.file, [...command.args, ...args, '--json'], {
    cwd: directory,
    nodeOptions: [...command.nodeOptions, '--import', PROBE],
    env: {
      API_BASE_URL: server.url,
      API_KEY: options.apiKey,
      API_CONCURRENCY: String(options.concurrency),
      COMPANY,
      DATA_DIR: dataDirectory(options),
      SOURCE_TIMEZONE,
      LOG_LEVEL: 'warn',
      PROBE_FILE: probeFile,
    },
  })
  return {
    ...ended,
    report: JSON.parse(ended.stdout) as RunReport,
    cost: JSON.parse(await readFile(probeFile, 'utf8')) as Cost,
    asked: await server.counters(),
    snapshotsWritten: (await countSnapshots(options)) - snapshotsBefore,
  }
}

async function countSnapshots(options: MeasureOptions): Promise<number> {
  return (await readdir(snapshotsDirectory(pathsOf(options).lake)).catch(() => [])).length
}

function expectRun({ report, asked }: SyncRun, expected: { loaded: number }): void {
  const sent = asked.list.requests + asked.notice.requests + asked.analysis.requests
  if (report.status === 'ok' && report.loaded === expected.loaded && report.requests === sent) return
  throw new Error(
    `Unexpected run: expected ${expected.loaded} loaded analyses; the API received ${sent} requests: ${JSON.stringify(report)}`,
  )
}

type Floors = Pick<Measured, 'fetchFloor' | 'loadFloor' | 'loadFloorAllThreads'>

/** Each runs in its own process, so that none profits from an earlier one. */
async function measureFloors(options: MeasureOptions, full: SyncRun): Promise<Floors> {
  const { server, apiKey, concurrency, directory } = options
  const fetched = await run(here('floor_fetch.ts'), [server.url, apiKey, String(concurrency)], {
    cwd: directory,
  })
  const fetchFloor = JSON.parse(fetched.stdout) as FetchFloor
  if (fetchFloor.requests !== full.report.requests || fetchFloor.bytes !== full.report.bytes_fetched) {
    throw new Error(`The fetch floor made other requests than the sync: ${JSON.stringify(fetchFloor)}`)
  }
  const segments = await unpackSegments(options)
  const loadFloor = await measureLoad(options, segments, 'as the sync')
  const unused = availableParallelism() - loadFloor.threads
  const loadFloorAllThreads = unused > 0 ? await measureLoad(options, segments, 'all') : null
  await rm(segments, { recursive: true })
  return { fetchFloor, loadFloor, loadFloorAllThreads }
}

/** The raw log as plain NDJSON: the load floor does not include decompression. */
async function unpackSegments(options: MeasureOptions): Promise<string> {
  const { raw } = pathsOf(options)
  const directory = join(options.directory, 'segments')
  await mkdir(directory)
  for (const number of await sealedSegments(raw)) {
    await pipeline(
      createReadStream(segmentPath(raw, number)),
      zlib.createZstdDecompress(),
      createWriteStream(join(directory, `${String(number).padStart(6, '0')}.ndjson`), { flush: true }),
    )
  }
  return directory
}

async function measureLoad(options: MeasureOptions, segments: string, threads: string): Promise<LoadFloor> {
  const directory = join(options.directory, 'floor')
  await mkdir(directory)
  const args = [segments, directory, COMPANY, SOURCE_TIMEZONE, threads]
  const floor = JSON.parse(
    (await run(here('floor_load.ts'), args, { cwd: options.directory })).stdout,
  ) as LoadFloor
  const manifest = await readManifest(latestLink(pathsOf(options).lake))
  for (const [table, rows] of Object.entries(floor.rows)) {
    if (manifest?.tables[table]?.rows === rows) continue
    throw new Error(`${table}: the load floor made ${rows} rows, the sync ${manifest?.tables[table]?.rows}`)
  }
  return floor
}
