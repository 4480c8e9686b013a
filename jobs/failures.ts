import type { Job } from 'bullmq'
import { noteFailure } from '#src/core/company/run_report.ts'
import { explain, messageOf } from '#src/lib/errors.ts'
import type { Shared } from './processors.ts'
import type { Company } from './queues/company_registry.ts'
import type { JobData } from './queues/queue.ts'
import { isOfRedis } from './queues/redis_problem.ts'

/**
 * Counts a run that could not begin or died, and so left no report, records it in the company's directory for `status`, and
 * raises an alert. Never throws: it already handles a failure.
 */
export async function leaveTrace(
  { metrics, alerts, queues, log }: Pick<Shared, 'metrics' | 'alerts' | 'queues' | 'log'>,
  company: Company,
  { reason, mode = 'incremental' }: { reason: string; mode?: 'incremental' | 'full' | null },
): Promise<void> {
  const { slug, paths } = company
  // A run that left a report is already counted.
  if (mode !== null) metrics.observeFailure(slug, mode)
  await noteFailure(paths, reason, new Date()).catch(error => {
    // Usually for the same reason: the directory is not writable.
    log.warn({ company: slug }, `The failure cannot be recorded for status: ${messageOf(error)}.`)
  })
  // Not awaited: Redis may be away, and waiting would block a slot.
  alerts
    .raise({ name: 'run_failed', company: slug, message: `A run could not begin, or died. ${reason}` })
    .then(() => alerts.deliver())
    .catch(queues.note)
}

/** Leaves the trace of an error that kept a run from beginning. A failure of Redis is not counted against a company. */
export async function traceOf(
  error: unknown,
  { name }: Pick<Job<JobData>, 'name'>,
  company: Company,
  shared: Shared,
): Promise<void> {
  if (name !== 'sync' || isOfRedis(error)) return
  await leaveTrace(shared, company, { reason: explain(error).message })
}
