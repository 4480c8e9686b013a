import type { Job } from 'bullmq'
import { z } from 'zod'
import type { JobName } from './queue.ts'

const NAMES: readonly JobName[] = ['sync', 'publish', 'maintain', 'mail']
const SHOWN = 200

const shape = z.object({
  company: z.string().min(1),
  refusals: z.number().optional(),
  spread: z.literal(true).optional(),
  offers: z.number().optional(),
})

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
