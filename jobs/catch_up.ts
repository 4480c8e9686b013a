import { repeatEvery } from '#jobs/queues/redis.ts'
import { EXIT, getMessage } from '#src/lib/errors.ts'
import { lockHolder } from '#src/lib/lock.ts'
import type { Behind } from '#src/server/company.ts'
import { runInProcess } from './process.ts'
import type { Shared } from './processors.ts'
import type { Company } from './queues/company_registry.ts'
import { findLaterElsewhere, readStanding } from './queues/known_state.ts'

/** Redis is asked this often whether another host ran a company. */
const LOOK_MS = 2000
/** The store is asked this often: nothing is in Redis of a run that was started by hand, or while Redis was away. */
const ASK_STORE_MS = 60_000
/** After a failure. */
const AGAIN_MS = 30_000
/** Processes at the same time: each opens a warehouse. */
const AT_ONCE = 2

export type CatchUp = {
  /** Returns what this host serves of a company, if another host has logged more. */
  behind(slug: string): Behind | null
}

/** The state of one company that this host follows. */
type Followed = {
  behind: Behind | null
  /** The last run elsewhere whose segments were brought here. */
  upTo: string | null
  /** The last segment that is in the lake for sure; null before the first catch-up, because a crash may have come between. */
  segment: number | null
  /** Why the last attempt failed; null if it did not. */
  problem: string | null
  askStoreAtMs: number
  againAtMs: number
  isUnderWay: boolean
}

type Options = Pick<Shared, 'registry' | 'queues' | 'log'> & {
  /** Companies whose lake on this disk is read: by clients of the API, in pages, by webhooks. */
  readonly served: () => readonly string[]
  readonly now: () => Date
  readonly stopping: AbortSignal
}

/**
 * Keeps the lakes of served companies in step with the log that hosts share: without a request to the API, and while
 * another host runs the company.
 */
export function startCatchUp(options: Options): CatchUp {
  const { registry, stopping, log, served } = options
  const followed = new Map<string, Followed>()
  const onError = (error: unknown, slug?: string) =>
    log.error({ company: slug }, `Catching up with other hosts failed: ${getMessage(error)}`)
  const look = async () => {
    const companies = served().flatMap(slug => {
      const company = registry.companies.get(slug)
      return company && company.settings.remoteLog !== null ? [company] : []
    })
    for (const slug of followed.keys())
      if (!companies.some(company => company.slug === slug)) followed.delete(slug)
    for (const company of companies) {
      if (stopping.aborted) return
      const known = followed.get(company.slug) ?? newlyFollowed()
      followed.set(company.slug, known)
      await noteLater(company, known, options).catch(error => onError(error, company.slug))
      const underWay = [...followed.values()].filter(({ isUnderWay }) => isUnderWay).length
      if (!isDue(known) || underWay >= AT_ONCE) continue
      known.isUnderWay = true
      void bring(company, known, options)
        .catch(error => onError(error, company.slug))
        .finally(() => {
          known.isUnderWay = false
        })
    }
  }
  void repeatEvery(LOOK_MS, look, { signal: stopping, onError })
  return { behind: slug => followed.get(slug)?.behind ?? null }
}

function newlyFollowed(): Followed {
  // The first catch-up asks the store, too.
  const askStoreAtMs = performance.now() + ASK_STORE_MS
  return {
    ...{ behind: null, upTo: null, segment: null, problem: null },
    ...{ askStoreAtMs, againAtMs: 0, isUnderWay: false },
  }
}

/**
 * Returns whether a company must catch up: if it is behind, and once at the start, because a crash may have left segments that
 * are in the log on this disk but not in its lake.
 */
function isDue({ behind, segment, againAtMs, isUnderWay }: Followed): boolean {
  return !isUnderWay && (behind !== null || segment === null) && performance.now() >= againAtMs
}

/** Notes that the log has more than the lake of this host. */
async function noteLater(company: Company, known: Followed, { queues, now }: Options): Promise<void> {
  if (known.behind !== null) return
  const run = await findLaterElsewhere(queues, company)
  const isLater = run !== null && run !== known.upTo
  const why = isLater ? 'it is being brought here' : await whyByStore(company, known)
  if (why !== null) known.behind = { since: now(), why }
}

/** Returns null if the store has no more than this host, or cannot be asked: a worker says so (`standby.ts`). */
async function whyByStore(company: Company, known: Followed): Promise<string | null> {
  if (performance.now() < known.askStoreAtMs) return null
  known.askStoreAtMs = performance.now() + ASK_STORE_MS
  const standing = await readStanding(company, known.segment ?? undefined)
  if (standing === 'later') return 'it is being brought here'
  return standing === 'other' ? 'the object store has another log than this disk' : null
}

async function bring(company: Company, known: Followed, options: Options): Promise<void> {
  const { queues, log, stopping } = options
  if ((await lockHolder(company.paths.lock).catch(() => null)) !== null) return waitForRun(known)
  const run = await findLaterElsewhere(queues, company)
  const order = { kind: 'catch_up', job: '' } as const
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(company.schedule.runTimeoutMs)])
  const ended = await runInProcess({ company, order, signal })
  if (ended.kind === 'caught_up') {
    Object.assign(known, { behind: null, problem: null, upTo: run ?? known.upTo, segment: ended.segment })
    return
  }
  known.againAtMs = performance.now() + AGAIN_MS
  if (ended.kind === 'failed' && ended.exitCode === EXIT.held) {
    // A run began meanwhile.
    if ((await lockHolder(company.paths.lock).catch(() => null)) !== null) return
  }
  if (stopping.aborted) return
  const why = ended.kind === 'failed' ? ended.message : 'it ended early'
  if (why !== known.problem)
    log.warn({ company: company.slug }, `This host could not bring what other hosts logged: ${why}`)
  known.problem = why
  if (known.behind !== null) known.behind = { ...known.behind, why }
}

/**
 * Stops counting the time that a company is behind while a run is under way on this disk: the run brings what other hosts logged,
 * and publishes it at its end.
 */
function waitForRun(known: Followed): void {
  if (known.behind === null) return
  const { since, why } = known.behind
  known.behind = { since: new Date(since.getTime() + LOOK_MS), why }
}
