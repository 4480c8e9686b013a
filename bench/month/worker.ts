import { randomBytes } from 'node:crypto'
import { getEventListeners, setMaxListeners } from 'node:events'
import { stat } from 'node:fs/promises'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { TABLES } from '#schema/tables.ts'
import { fingerprintOfRows } from '#src/operate/doctor/warehouse.ts'
import {
  type CompanyContext,
  holdingCompany,
  type Listener,
  localContext,
  openApi,
} from '#src/operate/open.ts'
import { openOptions, type Progress } from '#src/pipeline/run.ts'
import { saveMemory, saveTime } from '#src/platform/memory.ts'
import type { RunReport } from '#src/store/run_report.ts'
import { identifier } from '#src/store/warehouse/quoted.ts'
import { rowsOf } from '#src/store/warehouse/row_list.ts'
import { openWarehouse, rebuildWarehouse, type Warehouse } from '#src/store/warehouse/warehouse.ts'
import { sync } from '#src/sync.ts'
import { startWatch } from '../stopwatch.ts'
import { answerCalls } from './calls.ts'
import { forgetPeak, type Held, readHeld } from './held.ts'

/*
 * Makes one run after another in this process, as the command line makes one (the daemon uses a process for
 * each); only the clock is simulated.
 */

/** A run at an instant, without filters; `full` fetches each analysis again. */
export type RunAt = { readonly at: string; readonly full: boolean }

export type Ran = {
  readonly report: RunReport
  readonly wallSeconds: number
  readonly cpuSeconds: number
  /** Until the list is requested: lock, directories, warehouse, start of the log. */
  readonly openSeconds: number
  readonly publishSeconds: number
  /** After everything was closed. */
  readonly held: Held
  /** Listeners that runs left on the signal that they share. */
  readonly listeners: number
}

export type Rebuilt = {
  readonly segments: number
  readonly openSeconds: number
  readonly rebuildSeconds: number
  /** Size of the rebuilt file. */
  readonly warehouseBytes: number
  /** How long each segment took; those applied at once share their time. */
  readonly segmentMs: readonly number[]
  /** Tables whose rows differ from before. */
  readonly differs: readonly string[]
}

const environment = JSON.parse(process.argv[2] as string) as Record<string, string>
const settings = readSettings(environment)
const silent: Listener = { progress: () => {}, note: () => {} }
/** One for all runs, to detect listeners that a run leaves on it. */
const { signal } = new AbortController()
// Every open request adds a listener.
setMaxListeners(0, signal)

function contextAt(at: string): CompanyContext {
  const runId = `${at.replace(/[-:]|\.\d+/g, '')}-${randomBytes(3).toString('hex')}`
  return { ...localContext(settings, silent, signal), now: () => new Date(at), runId }
}

async function run({ at, full }: RunAt): Promise<Ran> {
  forgetPeak()
  const spent = startWatch()
  const began: Partial<Record<Progress['stage'], number>> = {}
  const onProgress = ({ stage }: Progress) => {
    began[stage] ??= spent().wallSeconds
    if (stage === 'fetch') saveTime()
  }
  saveMemory()
  const context = contextAt(at)
  const api = openApi(readApiSettings(environment), silent, signal)
  const request = { full, restart: false, statuses: null, ids: null, allowMassDelete: false }
  const { report } = await holdingCompany(context, silent, { what: 'bench', waitSeconds: 0 }, () =>
    sync(request, { ...context, api, onProgress }),
  ).finally(() => api.close())
  const { wallSeconds, cpuSeconds } = spent()
  return {
    report,
    wallSeconds,
    cpuSeconds,
    openSeconds: began.scan ?? wallSeconds,
    publishSeconds: wallSeconds - (began.publish ?? wallSeconds),
    held: readHeld(),
    listeners: getEventListeners(signal, 'abort').length,
  }
}

/** Opens the warehouse, then rebuilds it from the raw log; publishes nothing. */
async function rebuild({ at }: { at: string }): Promise<Rebuilt> {
  const context = contextAt(at)
  return await holdingCompany(context, silent, { what: 'bench', waitSeconds: 0 }, async () => {
    const opened = startWatch()
    const warehouse = await openWarehouse(openOptions(context))
    const openSeconds = opened().wallSeconds
    const before = await fingerprints(warehouse)
    warehouse.db.close()
    const moments: { ms: number; done: number }[] = []
    const onApply = ({ done }: { done: number }) => void moments.push({ ms: performance.now(), done })
    const spent = startWatch()
    const again = await rebuildWarehouse({ ...openOptions(context), onApply })
    const rebuildSeconds = spent().wallSeconds
    const after = await fingerprints(again)
    again.db.close()
    const { size: warehouseBytes } = await stat(context.paths.warehouse)
    return {
      segments: moments.at(-1)?.done ?? 0,
      openSeconds,
      rebuildSeconds,
      warehouseBytes,
      segmentMs: moments.slice(1).flatMap(({ ms, done }, index) => {
        const before = moments[index] as { ms: number; done: number }
        const count = done - before.done
        return Array.from({ length: count }, () => (ms - before.ms) / count)
      }),
      differs: TABLES.map(({ name }) => name).filter(name => before[name] !== after[name]),
    }
  })
}

/** For each table, a fingerprint of its rows. */
async function fingerprints({ db, rows: { directory, files } }: Warehouse): Promise<Record<string, string>> {
  const pairs: [string, string][] = []
  for (const table of TABLES) {
    const rows = table.each ? `(${rowsOf(table, directory, files)})` : identifier(table.name)
    const { mark } = await db.row<{ mark: string }>(`SELECT ${fingerprintOfRows(rows)}::VARCHAR AS mark`)
    pairs.push([table.name, mark])
  }
  return Object.fromEntries(pairs)
}

const calls = { run, rebuild }
export type WorkerCalls = typeof calls

answerCalls(calls)
