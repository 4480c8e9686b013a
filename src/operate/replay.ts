import { normalizeDateTime } from '#schema/times.ts'
import {
  measureSecondsSince,
  type Reported,
  type RunReport,
  withFindings,
} from '#src/core/company/run_report.ts'
import type { Loader } from '#src/core/pipeline/load.ts'
import {
  finishRun,
  publishWarehouse,
  type RunContext,
  type RunResult,
  withRun,
} from '#src/core/pipeline/run.ts'
import { type Verdict, validateAnalysis, validateNotice } from '#src/core/pipeline/validate.ts'
import { readBase, readLines, segmentPath } from '#src/core/rawlog/files.ts'
import { logName } from '#src/core/warehouse/warehouse.ts'
import { pluralize } from '#src/lib/count.ts'
import { remove, syncDirectory } from '#src/lib/durable.ts'
import { EXIT, FatalError, throwIfInterrupted } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { type Salvaged, salvageLog } from './salvage.ts'

type Quarantined = {
  readonly edital_id: string
  readonly kind: 'notice' | 'analysis'
  readonly observed_at: string
  readonly segment: number
  readonly seq: number
}

/**
 * Validates every quarantined record again with this version of the contract, from the bytes in the raw log
 * and without a request. Usable records are loaded; the others stay in quarantine.
 */
export async function replay(context: RunContext): Promise<RunResult> {
  return await withRun(context, 'replay', async run => {
    const { warehouse, loader, begun } = run
    const records = await warehouse.db.rows<Quarantined>(
      `SELECT edital_id, kind, observed_at::VARCHAR AS observed_at, _segment AS segment, _seq AS seq
       FROM quarantine WHERE resolved_at IS NULL AND edital_id IS NOT NULL ORDER BY segment, seq`,
    )
    // There is nothing to replay, so nothing is appended to the raw log.
    if (records.length === 0) {
      const published = await publishWarehouse(context, warehouse)
      return { report: begun, causes: new Set(), published, seconds: measureSecondsSince(begun, context) }
    }
    await bringSegments(records, context)
    const { analysisStatuses } = context.settings
    const log = await logName(warehouse)
    await loader.append({
      type: 'run_started',
      mode: 'replay',
      analysis_statuses: analysisStatuses,
      company: context.paths.company,
      ...(log === null ? {} : { log }),
    })
    let loaded = 0
    for (const record of records) {
      if (await replayRecord(loader, record, context.paths.raw)) loaded += 1
    }
    const compose = () => makeReport(begun, records.length, loaded - loader.poisoned.length)
    return await finishRun(run, context, { compose })
  })
}

function makeReport(begun: RunReport, listed: number, loaded: number): Reported {
  const quarantined = listed - loaded
  const reason = `${pluralize(quarantined, 'record')} still cannot be used.`
  const totals = { ...begun, listed, loaded, quarantined }
  return withFindings(totals, quarantined > 0 ? [{ status: 'partial', reason }] : [])
}

/** Brings the records' segments from the object store: on a disk restored from a checkpoint, they may be missing. */
async function bringSegments(
  records: readonly Quarantined[],
  { sharedLog, paths, onProgress }: RunContext,
): Promise<void> {
  const { segments: base } = await readBase(paths.raw)
  if (!records.some(({ segment }) => segment <= base)) return
  const note = 'Earlier segments from the object store'
  await sharedLog?.bringWhole((done, total) => onProgress({ stage: 'open', done, total, note }))
}

async function replayRecord(loader: Loader, record: Quarantined, rawDirectory: string): Promise<boolean> {
  const received = await readReceived(record, rawDirectory)
  if (!received) return false
  const { bytes, updatedAt } = received
  const { edital_id, kind } = record
  const verdict = kind === 'notice' ? validateNotice(bytes, edital_id) : validateAnalysis(bytes, edital_id)
  if (!verdict.ok) return false
  await loader.append(...usableLine(record, updatedAt, verdict))
  return true
}

function usableLine(
  record: Quarantined,
  updatedAt: string,
  verdict: Verdict & { ok: true },
): Parameters<Loader['append']> {
  const { edital_id } = record
  const extras = {
    ...(verdict.drift.length > 0 ? { drift: verdict.drift } : {}),
    ...(verdict.raw ? { raw: verdict.raw.toString('base64') } : {}),
  }
  if (record.kind === 'notice') {
    return [
      { type: 'notice', edital_id, updated_at: verdict.updatedAt, fetched_in: record.segment, ...extras },
      { notice: verdict.document },
    ]
  }
  return [
    {
      ...{
        type: 'analysis' as const,
        edital_id,
        updated_at: updatedAt,
        source_updated_at: normalizeDateTime(updatedAt),
      },
      hash: hashContent(verdict.document),
      fetched_at: record.observed_at,
      fetched_in: record.segment,
      ...extras,
    },
    { analysis: verdict.document },
  ]
}

type Received = {
  readonly bytes: Buffer
  /** The notice's, for which it was received. */
  readonly updatedAt: string
}

/** Returns what was received, from the line of the raw log that quarantined it. */
async function readReceived({ segment, seq }: Quarantined, rawDirectory: string): Promise<Received | null> {
  for await (const line of readLines(segmentPath(rawDirectory, segment))) {
    const parsed = JSON.parse(line) as Record<string, unknown>
    if (parsed.seq !== seq) continue
    const updatedAt = String(parsed.updated_at ?? '')
    if (typeof parsed.raw === 'string') return { bytes: Buffer.from(parsed.raw, 'base64'), updatedAt }
    // Quarantined because it could not be loaded: the line still holds the document itself.
    const document = parsed[String(parsed.type)]
    return document ? { bytes: Buffer.from(JSON.stringify(document)), updatedAt } : null
  }
  return null
}

/**
 * Repairs a damaged log, keeping what can be read. Before the log changes, the warehouse is removed: it was built
 * from the unrepaired log, and the next run or command that opens it rebuilds it. The caller holds the company's lock.
 * @throws FatalError (usage) if hosts share the log.
 */
export async function salvage(context: RunContext): Promise<Salvaged[]> {
  const { paths, runId, now, signal, onProgress, sharedLog } = context
  // Segments there never change, and a damaged one here can be copied again.
  if (sharedLog !== null)
    throw new FatalError(
      `--salvage is for a log on one disk. With LOG_URL, the object store has the whole log: move ${paths.root} away, and \`editais restore\` brings it back.`,
      EXIT.usage,
    )
  // Everything is read before anything is changed.
  const onSegment = (done: number, total: number) => {
    throwIfInterrupted(signal)
    onProgress({ stage: 'open', done, total, note: 'Read the raw log' })
  }
  const onUnusable = async () => {
    await remove('rebuilt.remove', paths.warehouse)
    await syncDirectory('rebuilt.directory', paths.root)
  }
  return await salvageLog({ directory: paths.raw, runId, now, onSegment, onUnusable })
}
