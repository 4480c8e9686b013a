import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { companyPaths } from '#src/store/company.ts'
import { snapshotsDirectory } from '#src/store/lake/manifest.ts'
import type { RunReport } from '#src/store/run_report.ts'
import { commandOf } from './command.ts'
import { type Costed, runCosted } from './cost.ts'
import { cpuSeconds } from './daemon/proc.ts'
import type { Server } from './processes.ts'
import type { Counters } from './server.ts'
import { type CpuByThread, watchStages } from './threads.ts'

const COMPANY = 'bench'
const SOURCE_TIMEZONE = 'America/Sao_Paulo'

/** One run of the sync: its cost and report, and the requests that the API received. */
export type SyncRun = Costed & {
  readonly report: RunReport
  readonly asked: Counters
  readonly snapshotsWritten: number
}

export type FullRun = SyncRun & {
  /** Null without `/proc`. */
  readonly threads: CpuByThread | null
  /** CPU seconds of the API's process meanwhile. */
  readonly serverCpuSeconds: number
}

/** A company's data directory, and the API that it mirrors. */
export type Place = {
  readonly server: Server
  readonly apiKey: string
  readonly concurrency: number
  /** Everything is written below it. */
  readonly directory: string
  /** Settings besides those of every run. */
  readonly settings?: Readonly<Record<string, string>>
}

export const pathsOf = ({ directory }: Pick<Place, 'directory'>) =>
  companyPaths(join(directory, 'data'), COMPANY)

function environmentOf({ server, apiKey, concurrency, directory, settings }: Place): Record<string, string> {
  return {
    API_BASE_URL: server.url,
    API_KEY: apiKey,
    API_CONCURRENCY: String(concurrency),
    COMPANY,
    DATA_DIR: join(directory, 'data'),
    SOURCE_TIMEZONE,
    LOG_LEVEL: 'warn',
    ...settings,
  }
}

/** Runs what this npm script runs; npm itself is not measured. */
async function runScript(
  place: Place,
  script: string,
  args: readonly string[],
  onStart?: (pid: number) => void,
): Promise<Costed> {
  const command = await commandOf(script)
  return await runCosted({
    ...command,
    args: [...command.args, ...args],
    env: environmentOf(place),
    cwd: place.directory,
    ...(onStart ? { onStart } : {}),
  })
}

export async function runStatus(place: Place): Promise<Costed> {
  return await runScript(place, 'status', [])
}

/** @param args of `npm run lake`. */
export async function runLake(place: Place, args: readonly string[]): Promise<Costed> {
  return await runScript(place, 'lake', args)
}

/** @throws Error if the run did not load exactly `expected.loaded` analyses, or counted other requests than the API. */
export async function syncOnce(
  place: Place,
  args: readonly string[],
  expected: { loaded: number },
  onStart?: (pid: number) => void,
): Promise<SyncRun> {
  const snapshotsBefore = await countSnapshots(place)
  await place.server.counters()
  const costed = await runScript(place, 'sync', [...args, '--json'], onStart)
  const run: SyncRun = {
    ...costed,
    report: JSON.parse(costed.stdout) as RunReport,
    asked: await place.server.counters(),
    snapshotsWritten: (await countSnapshots(place)) - snapshotsBefore,
  }
  expectRun(run, expected)
  return run
}

/** A full sync into an empty directory, watched by stage and thread. */
export async function syncFull(place: Place, notices: number): Promise<FullRun> {
  const { server } = place
  const snapshots = snapshotsDirectory(pathsOf(place).lake)
  const serverBefore = cpuSeconds(server.pid)
  let stop: ReturnType<typeof watchStages> = () => null
  const run = await syncOnce(place, ['--full'], { loaded: notices }, pid => {
    stop = watchStages(pid, { server, notices, snapshots })
  })
  const threads = stop(run.cpuSeconds)
  return { ...run, threads, serverCpuSeconds: cpuSeconds(server.pid) - serverBefore }
}

async function countSnapshots(place: Place): Promise<number> {
  return (await readdir(snapshotsDirectory(pathsOf(place).lake)).catch(() => [])).length
}

function expectRun({ report, asked }: SyncRun, expected: { loaded: number }): void {
  const sent = asked.list.requests + asked.notice.requests + asked.analysis.requests
  if (report.status === 'ok' && report.loaded === expected.loaded && report.requests === sent) return
  throw new Error(
    `Unexpected run: expected ${expected.loaded} loaded analyses; the API received ${sent} requests: ${JSON.stringify(report)}`,
  )
}
