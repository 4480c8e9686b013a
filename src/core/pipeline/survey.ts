import { join } from 'node:path'
import type { Api } from '#src/core/api/client.ts'
import type { Warehouse } from '#src/core/warehouse/warehouse.ts'
import { EXIT, FatalError, throwIfInterrupted } from '#src/lib/errors.ts'
import { detect, type Plan } from './detect.ts'
import type { KnownList, ShownList } from './list_index.ts'
import { ListedFile, stageListed } from './listed.ts'
import {
  findUnlistedRecords,
  isAnotherCompany,
  isForeignKey,
  type Missing,
  verifyMissing,
} from './missing.ts'
import { isFiltered, type Refetch, type SyncRequest } from './request.ts'
import type { RunContext } from './run.ts'
import { readByIds, readInto, type Scan, scan } from './scan.ts'

/** The list, and what follows from it. */
export type Survey = {
  readonly scanned: Scan
  readonly missing: Missing
  /** Quarantined records that the list no longer shows. */
  readonly unlisted: Awaited<ReturnType<typeof findUnlistedRecords>>
  readonly plan: Plan
  /** The file with the records that the plan names. */
  readonly listedPath: string
  /** The list, if it showed everything that exists, in one pass; otherwise null. */
  readonly shown: ShownList | null
}

export type SurveyContext = Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal' | 'onProgress'> & {
  readonly api: Api
}

const NONE_MISSING: Missing = { gone: [], found: 0, held: false, unverified: [] }

/**
 * Reads the API's list and decides what to do. Changes only temporary tables and files.
 * @param known what the last run saw in the list, if it holds: the plan is the same, but only what differs is read.
 * @throws FatalError if the list cannot be read or belongs to another company (identity guard).
 */
export async function survey(
  request: SyncRequest,
  refetch: Refetch,
  context: SurveyContext,
  { db }: Pick<Warehouse, 'db'>,
  known: KnownList | null = null,
): Promise<Survey> {
  const { paths, settings, signal } = context
  const listed = new ListedFile(join(paths.temporary, 'listed.ndjson'), known)
  try {
    const scanned = await readList(request, context, listed)
    const stage = async () => {
      await listed.flush()
      return await stageListed(db, listed, settings.sourceTimezone)
    }
    if (!(await stage())) return await survey(request, refetch, context, { db })
    await refuseAnotherCompany(request, context, db)
    const missing = isFiltered(request)
      ? NONE_MISSING
      : await verifyMissing({ ...context, db, listed, allowMassDelete: request.allowMassDelete })
    if (missing.found > 0) await stage()
    throwIfInterrupted(signal)
    const unlisted = !isFiltered(request) && scanned.complete ? await findUnlistedRecords(db) : []
    const plan = await detect({
      db,
      now: context.now(),
      analysisStatuses: settings.analysisStatuses,
      refetchSegment: refetch.segment,
      analysisMaxAge: settings.analysisMaxAge,
      force: request.ids !== null,
      temporaryDirectory: paths.temporary,
    })
    const { pages } = scanned
    const isAll = !isFiltered(request) && missing.found === 0 && pages !== null
    const shown = isAll ? { pages, compared_at: known?.comparedAt ?? context.now().toISOString() } : null
    return { scanned, missing, unlisted, plan, listedPath: listed.path, shown }
  } finally {
    await listed.close()
  }
}

async function readList(request: SyncRequest, context: SurveyContext, listed: ListedFile): Promise<Scan> {
  const { api, signal } = context
  const onProgress = (progress: { done: number; total: number }) =>
    context.onProgress({ stage: 'scan', ...progress })
  onProgress({ done: 0, total: 0 })
  return request.ids
    ? await readByIds({ api, ids: request.ids, listed, signal, onProgress })
    : await scan({ api, statuses: request.statuses, readPage: readInto(listed), signal, onProgress })
}

/** Throws FatalError if the key shows another company's notices (invariant I10). */
async function refuseAnotherCompany(
  request: SyncRequest,
  { api }: SurveyContext,
  db: Warehouse['db'],
): Promise<void> {
  if (request.allowMassDelete) return
  const isAnother = isFiltered(request) ? await isForeignKey(db, api) : await isAnotherCompany(db)
  if (!isAnother) return
  throw new FatalError(
    'The API lists none of the notices in this warehouse. Either the key belongs to another company, or the list is incomplete. Nothing was changed. Check API_KEY and COMPANY; if the list is correct, run with --allow-mass-delete.',
    EXIT.failed,
    { why: 'identity_guard' },
  )
}
