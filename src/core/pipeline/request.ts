import type { RunReport } from '#src/core/company/run_report.ts'
import type { Warehouse } from '#src/core/warehouse/warehouse.ts'
import type { Progress } from './run.ts'

/** The request for a run. */
export type SyncRequest = {
  /** Fetch every analysis again, resuming an unfinished `--full` unless `restart`. */
  readonly full: boolean
  readonly restart: boolean
  /** Only notices in these phases; null for all. A filtered run draws no conclusions about the others. */
  readonly statuses: readonly string[] | null
  /** Only these notices, whether they changed or not; null for all. */
  readonly ids: readonly string[] | null
  readonly allowMassDelete: boolean
}

export function isFiltered({ statuses, ids }: SyncRequest): boolean {
  return statuses !== null || ids !== null
}

export function chooseMode(request: SyncRequest): RunReport['mode'] {
  if (isFiltered(request)) return 'filtered'
  return request.full ? 'full' : 'incremental'
}

export type Refetch = {
  /** Analyses received up to this segment of the raw log are due again. Segment order does not depend on clocks. */
  readonly segment: number | null
  /** True if this run sets it, in its first segment; false if an earlier run did. */
  readonly anew: boolean
}

/** Resolves `--full`: continues an unfinished one unless `restart` is set. */
export async function decideRefetch(request: SyncRequest, { db }: Pick<Warehouse, 'db'>): Promise<Refetch> {
  const { segment, next, unfinished } = await db.row<{
    segment: number | null
    next: number
    unfinished: boolean
  }>('SELECT refetch_segment AS segment, applied_segment + 1 AS next, refetch_open AS unfinished FROM meta')
  const anew = request.full && (request.restart || !unfinished)
  return { segment: anew ? next : segment, anew }
}

/** A stage whose time is taken: those that show progress, and others that take time. */
type StageName = Progress['stage'] | 'look' | 'checkpoint' | 'upload'

/**
 * Does the work of a stage, and takes its time.
 * @param findFailure finds in the result why the stage failed, if `work` does not throw it.
 */
export type InStage = <T>(
  stage: StageName,
  work: () => Promise<T>,
  findFailure?: (result: T) => Error | string | null,
) => Promise<T>

/** Only does the work. */
export const workUntimed: InStage = (_, work) => work()
