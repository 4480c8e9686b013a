import { setTimeout as sleep } from 'node:timers/promises'
import { DelayedError, type Job, type Worker } from 'bullmq'
import type { Shared } from './processors.ts'
import { checkVolumes, type Volumes } from './queues/directory.ts'
import { every } from './queues/loop.ts'
import type { JobData } from './queues/queue.ts'

/** Volumes are checked this often: one command to Redis and, usually, one small file. */
const VOLUME_LOOK_MS = 2000
/** A Redis that refused commands is checked this often; BullMQ itself would retry at once, forever. */
const REFUSED_PAUSE_MS = 1000
/** A job that was on its way when the volume turned out to be wrong is for another worker. */
const PUT_BACK_MS = 1000

/** Decides when this worker takes jobs: only if Redis takes commands, and a right volume is mounted. */
export type Gate = {
  /** One sentence for each volume that is not the right one. */
  readonly wrongVolumes: readonly string[]
  /** Whether all volumes are wrong: then this worker takes no jobs until a right one is mounted. */
  readonly isHeldBack: boolean
  /** Starts the workers once the volumes were checked, and checks them until the signal is aborted. */
  open(workers: readonly Worker[]): void
  /** Pauses a worker until it may take jobs again. */
  rest(worker: Worker): Promise<void>
  /** Puts the job back and throws DelayedError if this worker takes none now. */
  admit(job: Job<JobData>, token: string): Promise<void>
}

export function createGate({ queues, registry, log }: Shared, signal: AbortSignal): Gate {
  let volumes: Volumes | null = null
  const mayTake = () => queues.problem() === null && volumes !== null && !volumes.areAllWrong

  async function rest(worker: Worker): Promise<void> {
    if (worker.isPaused()) return
    await worker.pause(true)
    do {
      await sleep(REFUSED_PAUSE_MS, undefined, { signal }).catch(() => {})
    } while (!signal.aborted && !mayTake())
    if (!signal.aborted) worker.resume()
  }

  async function check(workers: readonly Worker[]): Promise<void> {
    const before = volumes?.problems ?? []
    volumes = await checkVolumes(queues, registry.companies.values())
    const { problems, areAllWrong } = volumes
    for (const problem of problems) if (!before.includes(problem)) log.error(problem)
    if (before.length > 0 && problems.length === 0) log.info('The right volume is mounted again.')
    if (signal.aborted) return
    for (const worker of workers) {
      if (areAllWrong && worker.isRunning()) void rest(worker)
      // Not before the first check. A paused one continues by itself.
      else if (!areAllWrong && !worker.isRunning() && !worker.isPaused()) {
        worker.run().catch(error => worker.emit('error', error))
      }
    }
  }

  return {
    get wrongVolumes() {
      return volumes?.problems ?? []
    },
    get isHeldBack() {
      return volumes?.areAllWrong ?? false
    },
    open(workers) {
      void every(VOLUME_LOOK_MS, () => check(workers), { signal, onError: queues.note })
    },
    rest,
    async admit(job, token) {
      // A worker that is paused while it waits for a job still takes the next one.
      if (!volumes?.areAllWrong) return
      await job.moveToDelayed(Date.now() + PUT_BACK_MS, token)
      throw new DelayedError()
    },
  }
}
