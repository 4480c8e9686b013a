import type { Job } from 'bullmq'
import { explain, messageOf } from '#src/platform/errors.ts'
import { noteFailure } from '#src/store/failure.ts'
import type { Company } from './company_registry.ts'
import type { Shared } from './processors.ts'
import type { JobData } from './queue.ts'
import { isOfRedis } from './redis_problem.ts'

/**
 * A run that could not begin, or died, leaves no report: so it is counted here, noted in the company's directory
 * for `status`, and alerted. Never throws: it is about something that went wrong already.
 */
export async function leaveTrace(
  { metrics, alerts, queues, log }: Pick<Shared, 'metrics' | 'alerts' | 'queues' | 'log'>,
  company: Company,
  { reason, mode = 'incremental' }: { reason: string; mode?: 'incremental' | 'full' | null },
): Promise<void> {
  const { slug, paths } = company
  // One that left a report is counted by that.
  if (mode !== null) metrics.observeFailure(slug, mode)
  await noteFailure(paths, reason, new Date()).catch(error => {
    // Mostly the same reason: a directory that cannot be written.
    log.warn({ company: slug }, `Why the run failed cannot be noted for status: ${messageOf(error)}.`)
  })
  // Not waited for: Redis may be away, and a slot is no place to wait for it.
  alerts
    .raise({ name: 'run_failed', company: slug, message: `A run could not begin, or died. ${reason}` })
    .then(() => alerts.deliver())
    .catch(queues.note)
}

/** The same for what kept a run from its beginning; Redis's own trouble is no company's. */
export async function traceOf(
  error: unknown,
  { name }: Pick<Job<JobData>, 'name'>,
  company: Company,
  shared: Shared,
): Promise<void> {
  if (name !== 'sync' || isOfRedis(error)) return
  await leaveTrace(shared, company, { reason: explain(error).message })
}
