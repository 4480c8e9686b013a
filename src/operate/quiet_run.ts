import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  assertConserved,
  createReport,
  measureSecondsSince,
  type RunReport,
} from '#src/core/company/run_report.ts'
import { writeState } from '#src/core/company/state.ts'
import { openSnapshotToReaders, readAccess } from '#src/core/lake/access.ts'
import {
  countPublishedBytes,
  RUNS_ONLY_INTERVAL_MS,
  readLatest,
  snapshotsDirectory,
} from '#src/core/lake/manifest.ts'
import type { Published } from '#src/core/lake/publish.ts'
import { writeListIndex } from '#src/core/pipeline/list_index.ts'
import type { RunContext, RunResult } from '#src/core/pipeline/run.ts'
import { listSealedSegments, measureRawLog } from '#src/core/rawlog/files.ts'
import { RawLogWriter } from '#src/core/rawlog/writer.ts'
import { refuseStrange } from '#src/lib/access.ts'
import { remove } from '#src/lib/durable.ts'
import { InterruptedError } from '#src/lib/errors.ts'
import type { SyncContext } from '#src/sync.ts'
import { type Look, look } from './look.ts'

type Quiet = Extract<Look, { isNew: false }>

/**
 * Makes an incremental run that finds nothing new, without opening the warehouse: reads the list, and adds its start and its
 * report to the log, which the next run applies. The caller holds the company's lock.
 * @returns null if only a run can find out what is new; then nothing was changed.
 */
export async function runQuietly(context: SyncContext): Promise<RunResult | null> {
  const { paths, settings, api, signal, now } = context
  const startedAt = now()
  // What others sealed is on the disk, but not in the warehouse.
  if (context.sharedLog !== null) return null
  await guard(context)
  if (await context.follower.isBehind()) return null
  const found = await look({
    paths,
    settings,
    now,
    // A snapshot that shows only runs is due this often.
    maxAgeMs: RUNS_ONLY_INTERVAL_MS,
    // A failing API is left to the run, which waits and retries as configured.
    openApi: async () => ({ concurrency: api.concurrency, list: api.listBriefly, close: async () => {} }),
    signal,
  }).catch(error => {
    if (error instanceof InterruptedError) return null
    throw error
  })
  if (found === null || found.isNew) return null
  // A run counts each page that differs from the contract, each time.
  if (found.index.pages.some(({ drift }) => drift.length > 0)) return null
  const published = await readPublished(paths.lake)
  if (published === null) return null
  const report = composeReport(found, context, startedAt)
  await record(report, found, context)
  return { report, causes: new Set(), published, seconds: measureSecondsSince(report, context) }
}

/**
 * Does what a run also does before it opens files: refuses files of other users and a log with a gap, and opens the lake to
 * exactly its readers.
 */
async function guard({ paths }: RunContext): Promise<void> {
  // If there is no warehouse, a run creates one.
  if (existsSync(paths.warehouse))
    for (const path of [paths.warehouse, `${paths.warehouse}.wal`]) refuseStrange(path)
  await listSealedSegments(paths.raw)
  const directory = snapshotsDirectory(paths.lake)
  const access = await readAccess(paths.lake)
  for (const entry of await readdir(directory, { withFileTypes: true }))
    if (entry.isDirectory()) await openSnapshotToReaders(join(directory, entry.name), access)
}

async function readPublished(lake: string): Promise<Published | null> {
  const manifest = await readLatest(lake)
  if (manifest === null) return null
  const bytes = countPublishedBytes(manifest)
  return { directory: manifest.directory, manifest, written: false, bytesWritten: 0, bytes }
}

function composeReport({ index }: Quiet, { runId, api, now }: SyncContext, startedAt: Date): RunReport {
  const { listed, deferred } = index
  const report: RunReport = {
    ...createReport(runId, 'incremental', startedAt),
    listed,
    deferred,
    unchanged: listed - deferred,
    scan_passes: 1,
    scan_complete: true,
    requests: api.stats.requests,
    bytes_fetched: api.stats.bytes,
    finished_at: now().toISOString(),
  }
  assertConserved(report)
  return report
}

/** Records the run, in the log first: if anything after it is lost, the next run opens the warehouse and applies the log. */
async function record(
  report: RunReport,
  { state, index }: Quiet,
  { paths, settings, now }: RunContext,
): Promise<void> {
  const segments = index.place.segments + 1
  const log = new RawLogWriter({
    directory: paths.raw,
    firstNumber: segments,
    runId: report.run_id,
    now,
  })
  try {
    const { company } = paths
    const begun = { mode: 'incremental', company, analysis_statuses: settings.analysisStatuses } as const
    await log.append({ type: 'run_started', ...begun, ...(index.log === null ? {} : { log: index.log }) })
    await log.append({ type: 'run_finished', report })
    await log.seal()
  } finally {
    await log.close()
  }
  const { looked_at: _, ...before } = state
  await writeState(paths, {
    ...before,
    last_run: report,
    causes: [],
    last_good_at: report.finished_at,
    quarantined_before: before.quarantined,
    log: index.log,
    raw_log: await measureRawLog(paths.raw, before.raw_log),
  })
  await writeListIndex({ paths, settings }, { ...index, run_id: report.run_id }, segments)
  await remove('temporary.remove', paths.temporary)
}
