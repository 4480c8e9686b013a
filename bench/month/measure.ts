import { fileURLToPath } from 'node:url'
import { companyPaths } from '#src/store/company.ts'
import { rawLogSize } from '#src/store/rawlog/files.ts'
import type { RunStatus } from '#src/store/run_report.ts'
import { type Callee, startCallee } from './calls.ts'
import { type Disk, measureDisk } from './disk.ts'
import { complaints, FAIR, isConserved, type NetworkFaults, networkFaultsAt } from './network_faults.ts'
import type { ServerCalls, ServerOptions } from './server.ts'
import { runsAmiss, wrongNotices } from './truth.ts'
import type { Ran, Rebuilt, WorkerCalls } from './worker.ts'

export const DAY_HOURS = 24
const HOUR_MS = 3_600_000
const COMPANY = 'bench'
/** In the middle of a month, so that a new month begins during the simulation. */
const START = Date.parse('2026-09-15T00:00:00Z')
/**
 * A world of 5,000 notices has 1,840 from its last 30 days: two and a half an hour. A tick adds half a notice
 * on average, so five ticks an hour continue at that rate. They also change about ten notices an hour.
 */
const NOTICES_FOR_A_TICK = 1000
/** Short, because retries wait in real time. */
const RETRY_MS = 10

/** One run, and the state after it. */
export type Hour = Omit<Ran, 'report'> & {
  readonly hour: number
  readonly run_id: string
  readonly networkFaults: NetworkFaults['name']
  readonly status: RunStatus
  readonly listed: number
  readonly loaded: number
  readonly requests: number
  /** Changes in the world before it. */
  readonly changes: number
  readonly conserved: boolean
  /** Unexpected values in its report. */
  readonly complaints: readonly string[]
}

export type Day = Disk & { readonly hour: number }

export type Measured = {
  /** The first run, in its own process: its memory must not hide a leak of the others. */
  readonly first: Hour & { readonly segments: number }
  readonly hours: readonly Hour[]
  /** At the end of each day; the last day may be partial. */
  readonly days: readonly Day[]
  /** The run at the end, without faults, that fetches everything again. */
  readonly full: Hour
  readonly changes: number
  /** At the end. */
  readonly notices: number
  readonly wrongNotices: number
  /** Runs without exactly one row in `sync_runs`, and rows without a run. */
  readonly runsAmiss: number
  readonly rebuilt: Rebuilt
}

export type MeasureOptions = {
  readonly notices: number
  readonly hours: number
  readonly seed: string
  readonly apiKey: string
  readonly dataDir: string
  readonly onStep: (step: string) => void
}

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const instant = (hour: number) => new Date(START + hour * HOUR_MS).toISOString()

/**
 * A first sync, a run for each simulated hour, and a full one. Then everything is compared with the world, and
 * the warehouse is rebuilt from its log.
 * @throws Error if a run did not finish.
 */
export async function measureMonth(options: MeasureOptions): Promise<Measured> {
  const { notices, hours, seed, apiKey, dataDir, onStep } = options
  const paths = companyPaths(dataDir, COMPANY)
  onStep('generating the world')
  const about: ServerOptions = { notices, seed, apiKey, start: instant(0) }
  const server = await startCallee<ServerCalls>(here('server.ts'), about)
  const environment = {
    API_BASE_URL: await server.call('url', undefined),
    API_KEY: apiKey,
    API_RETRY_MS: String(RETRY_MS),
    COMPANY,
    DATA_DIR: dataDir,
  }
  onStep('first sync')
  const first = await withWorker(environment, worker => runOnce({ server, worker }, { hour: 0, full: false }))
  const { segments } = await rawLogSize(paths.raw)
  const all = await withWorker(environment, async worker => {
    const month = await live(options, { server, worker })
    onStep('full run')
    const full = await runOnce({ server, worker }, { hour: hours + 1, full: true })
    onStep('comparing with the world')
    const facts = await server.call('facts', undefined)
    const wrong = await wrongNotices(dataDir, COMPANY, facts)
    const amiss = await runsAmiss(dataDir, COMPANY, [first, ...month.hours, full])
    onStep('rebuilding')
    const rebuilt = await worker.call('rebuild', { at: instant(hours + 2) })
    return {
      ...month,
      full,
      rebuilt,
      notices: facts.length,
      wrongNotices: wrong.length,
      runsAmiss: amiss.length,
    }
  })
  await server.close()
  return { first: { ...first, segments }, ...all }
}

type Server = Callee<ServerCalls>
type Worker = Callee<WorkerCalls>
type Both = { readonly server: Server; readonly worker: Worker }

async function withWorker<T>(environment: object, work: (worker: Worker) => Promise<T>): Promise<T> {
  const worker = await startCallee<WorkerCalls>(here('worker.ts'), environment)
  const done = await work(worker)
  await worker.close()
  return done
}

async function live(
  { notices, hours, seed, dataDir, onStep }: MeasureOptions,
  both: Both,
): Promise<Pick<Measured, 'hours' | 'days' | 'changes'>> {
  const ticks = Math.max(1, Math.round(notices / NOTICES_FOR_A_TICK))
  const runs: Hour[] = []
  const days: Day[] = []
  let changes = 0
  for (let hour = 1; hour <= hours; hour += 1) {
    const run = await runOnce(both, { hour, full: false, ticks, networkFaults: networkFaultsAt(seed, hour) })
    runs.push(run)
    changes += run.changes
    if (hour % DAY_HOURS > 0 && hour < hours) continue
    days.push({ hour, ...(await measureDisk(companyPaths(dataDir, COMPANY))) })
    onStep(
      `${hour} of ${hours} hours; ${Math.round(run.held.rssBytes / 1e6)} MB, ${run.wallSeconds.toFixed(1)} s a run`,
    )
  }
  return { hours: runs, days, changes }
}

/** Advances the world by some ticks, then makes a run. */
async function runOnce(
  { server, worker }: Both,
  about: { hour: number; full: boolean; ticks?: number; networkFaults?: NetworkFaults },
): Promise<Hour> {
  const { hour, full, ticks = 0, networkFaults = FAIR } = about
  const at = instant(hour)
  const { notices, changes } = await server.call('pass', { at, ticks, faults: networkFaults.faults })
  const { report, ...ran } = await worker.call('run', { at, full })
  const requests = await server.call('counted', undefined)
  const { run_id, status, listed, loaded } = report
  return {
    hour,
    run_id,
    networkFaults: networkFaults.name,
    status,
    listed,
    loaded,
    requests,
    changes,
    ...ran,
    conserved: isConserved(report),
    complaints: complaints(report, { networkFaults, notices, requests }),
  }
}
