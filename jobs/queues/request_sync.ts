import { FatalError, messageOf } from '#src/lib/errors.ts'
import { redisRefusal } from '#src/lib/redis_refusal.ts'
import { type Queues, requestRun } from './queue.ts'
import { isRefusal } from './redis_problem.ts'
import type { RequestNumber, Requests } from './requests.ts'

/** Redis refused the run. The message says what is left of the request. */
export class RefusedRunError extends FatalError {}

/**
 * Requests a run of the company; with `full`, one that fetches everything again.
 * @throws RefusedRunError if Redis refuses, and the other errors of Redis.
 */
export async function requestSync(
  { queues, requests }: { readonly queues: Pick<Queues, 'runs'>; readonly requests: Requests },
  company: string,
  options: { readonly full: boolean; readonly restart: boolean },
): Promise<{ readonly job: string; readonly request: RequestNumber }> {
  let outcome = 'No run was requested.'
  try {
    const asked = await requests.ask(company, options)
    try {
      const { id = '' } = await requestRun(queues, 'sync', company)
      return { job: id, request: asked.request }
    } catch (error) {
      // What was stored for this run would turn a later one into a full one.
      await requests.withdraw(company, asked).catch(() => {
        outcome = 'No run was requested, but the next one fetches everything again.'
      })
      throw error
    }
  } catch (error) {
    if (!isRefusal(error)) throw error
    throw new RefusedRunError(`${redisRefusal(messageOf(error))} ${outcome}`)
  }
}
