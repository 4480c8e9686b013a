import { canonicalDateTime } from '#schema/fields.ts'
import { makeDirectories } from './company.ts'
import { publish } from './lake/publish.ts'
import { createLoader, type Loader } from './load.ts'
import { removeUnsealed, sealedSegments, segmentPath } from './rawlog/files.ts'
import { readLines } from './rawlog/read.ts'
import { RawLogWriter } from './rawlog/writer.ts'
import { newReport, worsen } from './report.ts'
import { openOptions, publishRequest, type SyncContext, type SyncResult } from './sync.ts'
import { hashOf, type Verdict, validateAnalysis, validateNotice } from './validate.ts'
import { openWarehouse } from './warehouse/warehouse.ts'

type Quarantined = {
  readonly edital_id: string
  readonly kind: 'notice' | 'analysis'
  readonly updated_at: string | null
  readonly observed_at: string
  readonly segment: number
  readonly seq: number
}

/**
 * Checks every quarantined record again with this version of the contract, from the bytes in the raw log
 * and without a request. The usable ones are loaded; the others stay as they are.
 */
export async function replay(context: Omit<SyncContext, 'api'>): Promise<SyncResult> {
  const { paths, now } = context
  await makeDirectories(paths)
  await removeUnsealed(paths.raw)
  const report = newReport(context.newId(), 'replay', now())
  const warehouse = await openWarehouse(openOptions(context))
  const log = new RawLogWriter({
    directory: paths.raw,
    firstNumber: (await sealedSegments(paths.raw)).length + 1,
    runId: report.run_id,
    now,
  })
  try {
    const loader = createLoader({ log, ...warehouse, onLoaded: () => {} })
    const records = await warehouse.db.rows<Quarantined>(
      `SELECT edital_id, kind, _updated_at AS updated_at, observed_at::VARCHAR AS observed_at, _segment AS segment, _seq AS seq
       FROM quarantine WHERE resolved_at IS NULL AND edital_id IS NOT NULL ORDER BY segment, seq`,
    )
    await loader.append({
      type: 'run_started',
      mode: 'replay',
      analysis_statuses: context.settings.analysisStatuses,
    })
    for (const record of records) {
      const usable = await replayRecord(loader, record, paths.raw)
      report[usable ? 'loaded' : 'quarantined'] += 1
    }
    report.listed = records.length
    if (report.quarantined > 0)
      worsen(report, 'partial', `${report.quarantined} records are still not usable.`)
    report.finished_at = now().toISOString()
    await loader.append({ type: 'run_finished', report })
    await loader.settle()
    return { report, published: await publish(publishRequest(context, warehouse)) }
  } finally {
    await log.close()
    warehouse.db.close()
  }
}

async function replayRecord(loader: Loader, record: Quarantined, rawDirectory: string): Promise<boolean> {
  const bytes = await bytesOf(record, rawDirectory)
  if (!bytes) return false
  const { edital_id, kind } = record
  const verdict = kind === 'notice' ? validateNotice(bytes, edital_id) : validateAnalysis(bytes, edital_id)
  if (!verdict.ok) return false
  await loader.append(...usableLine(record, verdict))
  return true
}

function usableLine(record: Quarantined, verdict: Verdict & { ok: true }): Parameters<Loader['append']> {
  const { edital_id } = record
  const extras = {
    ...(verdict.drift.length > 0 ? { drift: verdict.drift } : {}),
    ...(verdict.raw ? { raw: verdict.raw.toString('base64') } : {}),
  }
  if (record.kind === 'notice') {
    return [
      { type: 'notice', edital_id, updated_at: verdict.updatedAt, ...extras },
      { notice: verdict.document },
    ]
  }
  const updated_at = record.updated_at ?? ''
  return [
    {
      ...{
        type: 'analysis' as const,
        edital_id,
        updated_at,
        source_updated_at: canonicalDateTime(updated_at),
      },
      ...{ hash: hashOf(verdict.document), fetched_at: record.observed_at, ...extras },
    },
    { analysis: verdict.document },
  ]
}

/** The bytes that were received, from the line of the raw log that set them aside. */
async function bytesOf({ segment, seq }: Quarantined, rawDirectory: string): Promise<Buffer | null> {
  for await (const line of readLines(segmentPath(rawDirectory, segment))) {
    const parsed = JSON.parse(line) as Record<string, unknown>
    if (parsed.seq !== seq) continue
    if (typeof parsed.raw === 'string') return Buffer.from(parsed.raw, 'base64')
    // Set aside because it could not be loaded: the line still holds the document itself.
    const document = parsed[String(parsed.type)]
    return document ? Buffer.from(JSON.stringify(document)) : null
  }
  return null
}
