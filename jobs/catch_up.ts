import { EXIT, messageOf } from '#src/platform/errors.ts'
import type { Behind } from '#src/present/serve/behind.ts'
import { sealedSegments } from '#src/store/rawlog/files.ts'
import type { Company } from './company_registry.ts'
import { laterElsewhere } from './known_state.ts'
import { every } from './loop.ts'
import { inProcess } from './process.ts'
import type { Shared } from './processors.ts'

/** Redis is asked this often whether another host ran a company. */
const LOOK_MS = 2000
/** The store is asked this often: nothing is in Redis of a run that was started by hand, or while Redis was away. */
const ASK_STORE_MS = 60_000
const STORE_WITHIN_MS = 10_000
/** After a failure. */
const AGAIN_MS = 30_000

export type CatchUp = {
  /** What this host serves of a company, if another host has logged more. */
  behind(slug: string): Behind | null
}

/** What this host knows of one company. */
type Followed = {
  behind: Behind | null
  /** The last run elsewhere whose segments were brought here. */
  upTo: string | null
  askStoreAtMs: number
  againAtMs: number
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
  const look = async () => {
    const here = served()
    for (const slug of followed.keys()) if (!here.includes(slug)) followed.delete(slug)
    for (const slug of here) {
      const company = registry.companies.get(slug)
      if (stopping.aborted || !company || company.settings.remoteLog === null) continue
      const known = followed.get(slug) ?? { behind: null, upTo: null, askStoreAtMs: 0, againAtMs: 0 }
      followed.set(slug, known)
      await follow(company, known, options)
    }
  }
  void every(LOOK_MS, look, {
    signal: stopping,
    onError: error => log.error(`Catching up with other hosts failed: ${messageOf(error)}`),
  })
  return { behind: slug => followed.get(slug)?.behind ?? null }
}

async function follow(company: Company, known: Followed, options: Options): Promise<void> {
  const { log, now, stopping } = options
  const nowMs = performance.now()
  if (nowMs < known.againAtMs) return
  const later = await laterThanHere(company, known, options)
  if (later === null) return
  known.behind ??= { since: now(), why: 'it is being brought here' }
  const order = { kind: 'catch_up', job: '' } as const
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(company.schedule.runTimeoutMs)])
  const ended = await inProcess({ company, order, signal })
  if (ended.kind === 'caught_up') {
    Object.assign(known, { behind: null, upTo: later.run ?? known.upTo })
    return
  }
  if (ended.kind === 'failed' && ended.exitCode === EXIT.held) {
    // A run on this disk has brought it, and publishes it at its end.
    known.behind = null
    return
  }
  const why = ended.kind === 'failed' ? ended.message : 'it ended early'
  if (why !== known.behind.why && !stopping.aborted)
    log.warn({ company: company.slug }, `This host serves an older state than the log has: ${why}`)
  known.behind = { ...known.behind, why }
  known.againAtMs = nowMs + AGAIN_MS
}

/** Whether the log has more than this disk, and the id of the run elsewhere, if Redis knows it; null if it has not. */
async function laterThanHere(
  company: Company,
  known: Followed,
  { queues }: Options,
): Promise<{ readonly run: string | null } | null> {
  const run = await laterElsewhere(queues, company)
  if (run !== null && run !== known.upTo) return { run }
  if (known.behind !== null) return { run: null }
  const nowMs = performance.now()
  if (nowMs < known.askStoreAtMs) return null
  known.askStoreAtMs = nowMs + ASK_STORE_MS
  return (await hasLater(company)) ? { run: null } : null
}

async function hasLater({ paths, settings }: Company): Promise<boolean> {
  if (settings.remoteLog === null) return false
  const { SharedLog } = await import('#src/store/shared_log/log.ts')
  const log = new SharedLog(settings.remoteLog, paths, AbortSignal.timeout(STORE_WITHIN_MS))
  try {
    return await log.hasAfter((await sealedSegments(paths.raw).catch(() => [])).length)
  } catch {
    // A run says so.
    return false
  } finally {
    await log.release()
  }
}
