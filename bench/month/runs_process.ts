import { randomBytes } from 'node:crypto'
import { getEventListeners, setMaxListeners } from 'node:events'
import { stat } from 'node:fs/promises'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { TABLES } from '#schema/tables.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { openOptions, type Progress } from '#src/core/pipeline/run.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { storedRows } from '#src/core/warehouse/row_files.ts'
import { isRowTable } from '#src/core/warehouse/row_sql.ts'
import { openWarehouse, rebuildWarehouse, type Warehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import type { Listener } from '#src/extras/hold.ts'
import { saveMemory, saveTime } from '#src/lib/memory.ts'
import { fingerprintOfRows } from '#src/operate/doctor/warehouse.ts'
import { createLocalContext, holdCompany, openApi } from '#src/operate/open.ts'
import { sync } from '#src/sync.ts'
import { fileDescriptors, rssBytes } from '#tools/proc.ts'
import { answerCalls } from '../processes/calls.ts'
import { startWatch } from '../processes/costs.ts'

/**
 * Makes one run after another in this process, as the command line makes one (the daemon uses a process for
 * each); only the clock is simulated.
 */

export type Ran = {
  readonly report: RunReport
  readonly wallSeconds: number
  readonly cpuSeconds: number
  /** Memory and open files of this process after everything was closed. Garbage is part of what a process holds. */
  readonly rssBytes: number
  readonly files: number
  /** Listeners that runs left on the signal that they share. */
  readonly listeners: number
}

export type Rebuilt = {
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
const holding = { what: 'bench', waitSeconds: 0 }
/** One for all runs, to detect listeners that a run leaves on it. */
const { signal } = new AbortController()
// Every open request adds a listener.
setMaxListeners(0, signal)

function contextAt(at: string): CompanyContext {
  const runId = `${at.replace(/[-:]|\.\d+/g, '')}-${randomBytes(3).toString('hex')}`
  return { ...createLocalContext(settings, silent, signal), now: () => new Date(at), runId }
}

/** A run at an instant, without filters; `full` fetches each analysis again. */
async function run({ at, full }: { readonly at: string; readonly full: boolean }): Promise<Ran> {
  const spent = startWatch()
  const onProgress = ({ stage }: Progress) => {
    if (stage === 'fetch') saveTime()
  }
  saveMemory()
  const context = contextAt(at)
  // Short, because retries wait in real time.
  const api = openApi({ ...readApiSettings(environment), retryMs: 10 }, silent, signal)
  const request = { full, restart: false, statuses: null, ids: null, allowMassDelete: false }
  const { report } = await holdCompany(context, silent, holding, () =>
    sync(request, { ...context, api, onProgress }),
  ).finally(() => api.close())
  return {
    report,
    ...spent(),
    rssBytes: rssBytes(process.pid),
    // Except the one that reads this directory.
    files: fileDescriptors(process.pid) - 1,
    listeners: getEventListeners(signal, 'abort').length,
  }
}

/** Opens the warehouse, then rebuilds it from the raw log; publishes nothing. */
async function rebuild({ at }: { readonly at: string }): Promise<Rebuilt> {
  const context = contextAt(at)
  return await holdCompany(context, silent, holding, async () => {
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

const calls = { run, rebuild }
export type RunCalls = typeof calls

answerCalls(calls)

/** Returns a fingerprint of the rows of each table. */
async function fingerprints({ db, rows: { directory, files } }: Warehouse): Promise<Record<string, string>> {
  const pairs: [string, string][] = []
  for (const table of TABLES) {
    const rows = isRowTable(table) ? `(${storedRows(table, directory, files)})` : identifier(table.name)
    const { mark } = await db.row<{ mark: string }>(`SELECT ${fingerprintOfRows(rows)}::VARCHAR AS mark`)
    pairs.push([table.name, mark])
  }
  return Object.fromEntries(pairs)
}
