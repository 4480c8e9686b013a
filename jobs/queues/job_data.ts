import type { Job } from 'bullmq'
import { z } from 'zod'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { PublishedFigures } from '#src/core/lake/publish.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import type { Cause, ExitCode } from '#src/lib/errors.ts'
import type { Maintenance } from '#src/operate/maintain.ts'
import type { Status } from '#src/operate/status.ts'
import type { JobName } from './queue.ts'

const NAMES: readonly JobName[] = ['sync', 'publish', 'maintain', 'mail']
const SHOWN = 200

const shape = z.object({
  company: z.string().min(1),
  refusals: z.number().optional(),
  spread: z.literal(true).optional(),
  offers: z.number().optional(),
})

/** The result of a job, for the board and for the requester. */
export type JobResult = { readonly skipped: string } | { readonly ended: Ended }

type AnyJob = Pick<Job<unknown>, 'id' | 'name' | 'data' | 'queueName'>

/** Returns the company of a job; null if the job has data of another shape, which this program did not write. */
export function jobCompany(job: Pick<AnyJob, 'data'>): string | null {
  const parsed = shape.safeParse(job.data)
  return parsed.success ? parsed.data.company : null
}

/**
 * Returns why no worker can do the job: Redis may hold what another program or version wrote there, and what is left of a tick
 * that two workers scheduled for one time because their clocks differ. Null if it can be done.
 */
export function whyJobRefused(job: AnyJob): string | null {
  const { id = 'without an id', name, data, queueName } = job
  const isKnown = NAMES.some(known => known === name)
  if (isKnown && jobCompany(job) !== null) return null
  const what = isKnown
    ? `names no company in its data (${shown(data)})`
    : `is called ${shown(name)}, which is not one of ${NAMES.join(', ')}`
  return `The job ${shown(id)} in the queue ${queueName} was refused: it ${what}. Another program or version added it, or the clock of a worker is wrong: /readyz names it. No run is lost by this.`
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return text.slice(0, SHOWN)
}

/** The one message to a child: what to do for the company of its environment. */
export type RunOrder =
  | { readonly kind: 'sync'; readonly job: string; readonly full: boolean; readonly restart: boolean }
  | { readonly kind: 'publish'; readonly job: string }
  | { readonly kind: 'maintain'; readonly job: string }
  | { readonly kind: 'catch_up'; readonly job: string }
  | { readonly kind: 'status' }
  | { readonly kind: 'report' }
  | { readonly kind: 'mail'; readonly job: string }

/** A request to the API, with the status of its answer; null if there was none. */
export type AnswerSeen = { readonly status: number | null; readonly seconds: number }

export type Ended =
  | {
      readonly kind: 'synced'
      readonly report: RunReport
      readonly causes: readonly Cause[]
      readonly published: PublishedFigures
      readonly seconds: number
      readonly exitCode: ExitCode
    }
  /** Null if the object store has what it should have now. */
  | { readonly kind: 'published'; readonly snapshot: string | null }
  | { readonly kind: 'maintained'; readonly maintenance: Maintenance }
  /** Up to this segment of the log. */
  | { readonly kind: 'caught_up'; readonly segment: number }
  | { readonly kind: 'status'; readonly status: Status }
  | { readonly kind: 'report'; readonly html: string }
  | { readonly kind: 'mailed' }
  | {
      readonly kind: 'failed'
      readonly message: string
      readonly exitCode: ExitCode
      readonly cause: Cause | null
    }

/** The messages of a child, in this order; exactly one `ended`, unless it is killed. */
export type RunMessage =
  | { readonly type: 'ready' }
  /** The request is durable: a request for `--full` no longer needs to be kept elsewhere. */
  | { readonly type: 'begun' }
  | { readonly type: 'news'; readonly progress: Progress | null; readonly answers: readonly AnswerSeen[] }
  | { readonly type: 'ended'; readonly ended: Ended }
