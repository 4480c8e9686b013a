import type { RunReport } from '#src/core/company/run_report.ts'
import { logName, type Warehouse } from '#src/core/warehouse/warehouse.ts'
import { detectLeft } from './detect.ts'
import { writeListIndex } from './list_index.ts'
import { missingNotices, unlistedRecords } from './missing.ts'
import { decideRefetch, type SyncRequest } from './request.ts'
import type { RunContext } from './run.ts'
import type { ShownPage } from './shown.ts'

/** The daemon reads the index of every company, 50 bytes a notice; a larger company gets only runs. */
const MAX_INDEXED = 100_000

const NEXT_RUN: SyncRequest = {
  full: false,
  restart: false,
  statuses: null,
  ids: null,
  allowMassDelete: false,
}

/** The input of a run that leaves an index: the pages of a list that was whole in one pass, and everything stored. */
type Leaving = {
  readonly report: RunReport
  readonly pages: readonly ShownPage[]
  readonly segments: number
}

/**
 * Writes the index that lets looks replace the next runs, if the run was ok and the next one would find nothing
 * to do. The same statements decide that, on the table `listed` and what the run made of it.
 */
export async function leaveIndex(
  context: Pick<RunContext, 'paths' | 'settings' | 'now'>,
  { db }: Pick<Warehouse, 'db'>,
  { report, pages, segments }: Leaving,
): Promise<void> {
  if (report.status !== 'ok' || !isUsable(pages)) return
  const { analysisStatuses, analysisMaxAge } = context.settings
  const now = context.now()
  const { segment: refetchSegment } = await decideRefetch(NEXT_RUN, { db })
  const left = await detectLeft({ db, now, analysisStatuses, analysisMaxAge, refetchSegment, force: false })
  if (left.toDo + (await missingNotices(db)).length + (await unlistedRecords(db)).length > 0) return
  const { listed, deferred, dueAt } = left
  const index = {
    run_id: report.run_id,
    log: await logName({ db }),
    made_at: now.toISOString(),
    due_at: dueAt?.toISOString() ?? null,
    listed,
    deferred,
    pages,
  }
  await writeListIndex(context, index, segments)
}

/** Returns false if there are too many notices, or two pages show one differently: it changed while the list was read. */
function isUsable(pages: readonly ShownPage[]): boolean {
  const shown = new Map<string, string>()
  for (const { notices } of pages) {
    for (const [key, fingerprint] of notices) {
      if ((shown.get(key) ?? fingerprint) !== fingerprint) return false
      shown.set(key, fingerprint)
    }
  }
  return shown.size <= MAX_INDEXED
}
