import type { Logger } from 'pino'
import type { DaemonSettings } from '#config/daemon.ts'
import { formatDuration } from '#config/settings.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { askRedis } from './redis.ts'

/** Slots are checked this often for a run that must give its slot to others. */
export const SHARE_LOOK_MS = 1000
const REDIS_WITHIN_MS = 1000

/** Why a run is ended early although its worker continues: it took too long, or others wait for its slot. */
type Cut = 'timeout' | 'share'

/** A place for a run in this worker, as long as the run holds it. */
export type Slot = {
  readonly company: string
  /** When it was taken, by the system clock; for display. */
  readonly sinceMs: number
  /** The time it was taken by `performance.now()`, to measure how long it is held: the system clock may go back. */
  readonly takenMs: number
  /** Aborted when the run must end early. */
  readonly signal: AbortSignal
  /** Null until its process has started. */
  pid: number | null
  /** Null unless the run was ended early. */
  readonly cut: Cut | null
  end(cut: Cut): void
  release(): void
}

/** The runs under way in this worker. A company may briefly have a second one, until that finds the company held. */
export type Slots = Set<Slot>

/** Takes a slot for a company's run, and ends the run after its RUN_TIMEOUT. */
export function takeSlot(slots: Slots, { slug, schedule }: Company): Slot {
  const ending = new AbortController()
  let cut: Cut | null = null
  const end = (why: Cut) => {
    cut ??= why
    ending.abort()
  }
  const timer = setTimeout(() => end('timeout'), schedule.runTimeoutMs)
  const slot: Slot = {
    company: slug,
    sinceMs: Date.now(),
    takenMs: performance.now(),
    signal: ending.signal,
    pid: null,
    get cut() {
      return cut
    },
    end,
    release() {
      clearTimeout(timer)
      slots.delete(slot)
    },
  }
  slots.add(slot)
  return slot
}

/**
 * Ends long runs, so that they do not hold every slot while others wait: of several slots, one is always for runs that end within
 * WORKER_FAIR_SHARE. It ends the long runs that began last; they keep what they have and continue on their next turn.
 */
export async function shareSlots(
  slots: Slots,
  { settings, queues, log }: { settings: DaemonSettings; queues: Queues; log: Logger },
): Promise<void> {
  const { concurrency, fairShareMs } = settings
  const from = performance.now() - fairShareMs
  const long = [...slots].filter(({ takenMs }) => takenMs <= from)
  // With a single slot, a long run must be able to finish too.
  const tooMany = long.sort((a, b) => a.takenMs - b.takenMs).slice(Math.max(1, concurrency - 1))
  const [slot] = tooMany.filter(({ cut }) => cut === null)
  if (!slot || slots.size < concurrency || !(await isAnyWaiting(queues))) return
  log.info(
    { company: slot.company },
    `The run gives its slot to waiting runs after ${formatDuration(fairShareMs)} (WORKER_FAIR_SHARE). It keeps what it has, and continues after them.`,
  )
  slot.end('share')
}

async function isAnyWaiting({ redis, runs }: Queues): Promise<boolean> {
  // While Redis is away, no run can take the slot.
  const waiting = await askRedis(redis, REDIS_WITHIN_MS, () => runs.getWaitingCount()).catch(() => 0)
  return waiting > 0
}
