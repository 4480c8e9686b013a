import type { Logger } from 'pino'
import type { DaemonSettings } from '#config/daemon.ts'
import { formatDuration } from '#config/settings.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { fromRedis } from './within.ts'

/** How soon a run is noticed that is to give its slot to others. */
export const SHARE_LOOK_MS = 1000
const REDIS_WITHIN_MS = 1000

/** Why a run is ended early, though its worker goes on: it took too long, or others wait for its slot. */
export type Cut = 'timeout' | 'share'

/** A place for a run in this worker, while the run has it. */
export type Slot = {
  readonly company: string
  /** When it was taken, by the machine's clock: for people. */
  readonly sinceMs: number
  /** The same by `performance.now()`, to measure how long it is held: the machine's clock may go back. */
  readonly takenMs: number
  /** Aborted when the run is to end early. */
  readonly signal: AbortSignal
  /** Null before its process has begun. */
  pid: number | null
  /** Null while nobody ended it. */
  readonly cut: Cut | null
  end(cut: Cut): void
  release(): void
}

/** The runs under way in this worker; for a moment, until it finds the company held, also a second one of a company. */
export type Slots = Set<Slot>

/** Takes a slot for a company's run, which is ended after its RUN_TIMEOUT. */
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
 * Runs that take long must not hold every slot while others wait: of several slots one is always for runs that end
 * within WORKER_FAIR_SHARE. Those that began last are ended; they keep what they have, and go on when it is their turn.
 */
export async function shareSlots(
  slots: Slots,
  { settings, queues, log }: { settings: DaemonSettings; queues: Queues; log: Logger },
): Promise<void> {
  const { concurrency, fairShareMs } = settings
  const from = performance.now() - fairShareMs
  const long = [...slots].filter(({ takenMs }) => takenMs <= from)
  // With a single slot a run that takes long must get to its end, too.
  const tooMany = long.sort((a, b) => a.takenMs - b.takenMs).slice(Math.max(1, concurrency - 1))
  const [slot] = tooMany.filter(({ cut }) => cut === null)
  if (!slot || slots.size < concurrency || !(await somebodyWaits(queues))) return
  log.info(
    { company: slot.company },
    `Its run gives its slot to others that wait, after ${formatDuration(fairShareMs)} (WORKER_FAIR_SHARE). It keeps what it has, and goes on after them.`,
  )
  slot.end('share')
}

async function somebodyWaits({ redis, runs }: Queues): Promise<boolean> {
  // A Redis that is away has nobody to give the slot to.
  const waiting = await fromRedis(redis, REDIS_WITHIN_MS, () => runs.getWaitingCount()).catch(() => 0)
  return waiting > 0
}
