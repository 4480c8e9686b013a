import type { Queues } from './queues/queue.ts'

/** Renews our lock, or takes it again if it expired while the job is still active and no other worker has it. */
const KEEP = `
  local owner = redis.call('GET', KEYS[1])
  if owner and owner ~= ARGV[1] then return 0 end
  if not owner and not redis.call('LPOS', KEYS[2], ARGV[2]) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
  return 1`

/** The job is active without a lock; a worker that runs it would renew the lock. */
const IS_ABANDONED = `
  return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('LPOS', KEYS[2], ARGV[1]) ~= false`

/**
 * Locks of the jobs that this worker runs. BullMQ gives up a job whose lock expired while Redis was away, although its
 * run continues: the queue would find the job abandoned, and run it again.
 */
export type JobLocks = {
  hold(job: string, token: string): void
  release(job: string): void
  /** Keeps the lock of a job. @returns false if the queue has given the job to another worker, or no longer knows it. */
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

/** Returns whether the queue has the job as active, but its worker is gone or cannot reach Redis. */
export async function isAbandoned(
  { redis, runs }: Pick<Queues, 'redis' | 'runs'>,
  job: string,
): Promise<boolean> {
  const keys = [runs.toKey(`${job}:lock`), runs.toKey('active')]
  return (await redis.eval(IS_ABANDONED, 2, ...keys, job)) === 1
}
