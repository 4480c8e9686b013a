import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Plan } from '#src/core/pipeline/detect.ts'
import { explainIds } from '#src/core/pipeline/report.ts'
import { decideRefetch, type SyncRequest } from '#src/core/pipeline/request.ts'
import { type SurveyContext, survey } from '#src/core/pipeline/survey.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { createWarehouse, hasCurrentSchema, refuseNewer } from '#src/core/warehouse/warehouse.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'

/** The plan of a run; counts of notices. */
export type RunPlan = Pick<Plan, 'listed' | 'added' | 'changed' | 'revived' | 'unchanged' | 'deferred'> & {
  readonly company: string
  readonly quarantined: number
  readonly to_fetch: number
  readonly tombstoned: number
  /** Why notices requested by id could not be read, in sentences. */
  readonly problems: readonly string[]
  /** Requests that the run would send, without retries. */
  readonly requests: number
  /** Assumes that each analysis takes as long as a request of the survey; loading happens in parallel. */
  readonly estimated_seconds: number
}

/**
 * Surveys the API as a run would, and stops there: no file of the company is written.
 * @throws FatalError if the warehouse is in use, or must be rebuilt before it can be compared.
 */
export async function plan(request: SyncRequest, context: SurveyContext): Promise<RunPlan> {
  const temporary = await mkdtemp(join(tmpdir(), 'editais-sync-plan-'))
  const startedMs = context.now().getTime()
  const db = await openUnchanged(context)
  try {
    const refetch = await decideRefetch(request, { db })
    const unchangedPaths = { ...context.paths, temporary }
    const { plan, missing, scanned } = await survey(
      request,
      refetch,
      { ...context, paths: unchangedPaths },
      { db },
    )
    const surveyMs = context.now().getTime() - startedMs
    return {
      company: context.paths.company,
      listed: plan.listed + scanned.absent.length + scanned.failed.length,
      added: plan.added,
      changed: plan.changed,
      revived: plan.revived,
      unchanged: plan.unchanged,
      deferred: plan.deferred,
      quarantined: plan.rejected,
      to_fetch: plan.toFetch,
      tombstoned: missing.gone.length,
      problems: explainIds(scanned).map(({ reason }) => reason),
      requests: context.api.stats.requests + plan.toFetch,
      estimated_seconds: Math.ceil(surveyMs / 1000 + context.api.estimateSeconds(plan.toFetch)),
    }
  } finally {
    db.close()
    await rm(temporary, { recursive: true, force: true })
  }
}

/** Opens the warehouse read-only, or an empty one in memory if there is none yet. */
async function openUnchanged({ paths, settings }: SurveyContext): Promise<Database> {
  const { sourceTimezone } = settings
  if (!existsSync(paths.warehouse)) {
    const db = await Database.open(':memory:')
    await createWarehouse(db, { sourceTimezone, paths, id: 'plan' })
    return db
  }
  const db = await Database.open(paths.warehouse, { readOnly: true }).catch(error => {
    throw new FatalError(
      `The warehouse cannot be opened: ${getMessage(error)}. If a sync is running, run --plan again after it.`,
      EXIT.held,
    )
  })
  if (await hasCurrentSchema(db, { sourceTimezone, paths })) return db
  await refuseNewer(db, paths).finally(() => db.close())
  throw new FatalError(
    'The warehouse was built by another version, with another SOURCE_TIMEZONE or for a company of another name, so it must be rebuilt first. Run `editais rebuild`, then --plan again.',
  )
}
