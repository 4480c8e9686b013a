import type { Queues } from './queue.ts'

/** Ours as before, or ours again where the lock has ended and no other worker has the job. */
const KEEP = `
  local owner = redis.call('GET', KEYS[1])
  if owner and owner ~= ARGV[1] then return 0 end
  if not owner and not redis.call('LPOS', KEYS[2], ARGV[2]) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  return 1`

/** The worker that carries it out renews its lock. */
const IS_ABANDONED = `
  return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('LPOS', KEYS[2], ARGV[1]) ~= false`

/**
 * Locks of the jobs that this worker carries out. BullMQ gives a job up whose lock ended while Redis was away, although
 * its run goes on: the queue would wait for the job to be found abandoned, and then run it again.
 */
export type JobLocks = {
  hold(job: string, token: string): void
  release(job: string): void
  /** @returns false if the queue has given the job to another worker, or no longer knows it. */
  keep(job: string): Promise<boolean>
}

export function createJobLocks({ redis, runs }: Pick<Queues, 'redis' | 'runs'>, lockMs: number): JobLocks {
  const tokens = new Map<string, string>()
  return {
    hold: (job, token) => void tokens.set(job, token),
    release: job => void tokens.delete(job),
    async keep(job) {
      const token = tokens.get(job)
      if (token === undefined) return false
      const keys = [runs.toKey(`${job}:lock`), runs.toKey('active')]
      return (await redis.eval(KEEP, 2, ...keys, token, job, lockMs)) === 1
    },
  }
}

/** Whether it is under way for the queue, while its worker is gone or has no Redis. */
export async function isAbandoned(
  { redis, runs }: Pick<Queues, 'redis' | 'runs'>,
  job: string,
): Promise<boolean> {
  const keys = [runs.toKey(`${job}:lock`), runs.toKey('active')]
  return (await redis.eval(IS_ABANDONED, 2, ...keys, job)) === 1
}
