import { readApiSettings } from '#config/settings.ts'
import { writeLook } from '#src/core/company/state.ts'
import { getHosts } from '#src/extras.ts'
import { explain } from '#src/lib/errors.ts'
import { lockHolder } from '#src/lib/lock.ts'
import { combineFollowers } from '#src/operate/extras.ts'
import type { Look, LookApi } from '#src/operate/look.ts'
import { alertAfterRun } from './alerts/alerts.ts'
import type { Shared } from './processors.ts'
import { type Company, checkDirectory } from './queues/company_registry.ts'
import { shareState } from './queues/known_state.ts'

/** A look that takes longer leaves the list to a run. */
const LOOK_WITHIN_MS = 60_000
/** A page of 200 ordinary notices has 0.2 MB. A larger one would hold up the worker's other work. */
const MAX_PAGE_BYTES = 2 * 1024 * 1024
/** A failing API is for the run to report, which waits and retries as it is set to. */
const MAX_RETRIES = 1

type Context = {
  readonly shared: Pick<Shared, 'metrics' | 'alerts' | 'heartbeat' | 'queues' | 'log'>
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal
  /** The job that looks. */
  readonly job: string
}

/**
 * Looks, in this process, whether a run would find anything new. If not, that counts as a good run. Never throws:
 * whatever is wrong, a run reports it.
 */
export async function lookFirst(company: Company, context: Context): Promise<{ readonly isNew: boolean }> {
  const { queues, log } = context.shared
  const { slug } = company
  const key = `${queues.prefix}:looking:${slug}`
  try {
    // With a schedule of seconds, the next look would begin before this one ends, here or in another worker.
    if ((await queues.redis.set(key, context.job, 'PX', LOOK_WITHIN_MS, 'NX')) === null) {
      const looking = await queues.redis.get(key)
      // A worker that died while it looked leaves its key, and its job to another worker.
      if (looking !== null && looking !== context.job) return { isNew: false }
    }
    return await lookAlone(company, context).finally(() => queues.redis.del(key).catch(queues.note))
  } catch (error) {
    log.debug({ company: slug }, `A look leaves the list to a run: ${explain(error).message}`)
    return { isNew: true }
  }
}

async function lookAlone(company: Company, context: Context): Promise<{ readonly isNew: boolean }> {
  const { metrics, alerts, heartbeat, queues, log } = context.shared
  const { slug, paths } = company
  const at = new Date().toISOString()
  const found = await lookAt(company, context)
  if (found.isNew) {
    log.debug({ company: slug }, `A look leaves the list to a run: ${found.why}`)
    if (found.hasAsked) metrics.observeLook(slug, 'run')
    return found
  }
  const { state } = found
  await writeLook(paths, { at, run_id: state.last_run.run_id })
  await shareState(queues, company).catch(queues.note)
  metrics.observeLook(slug, 'nothing_new')
  void heartbeat(company)
  await alertAfterRun(alerts, company, state).catch(queues.note)
  alerts.deliver().catch(queues.note)
  return found
}

async function lookAt(company: Company, { shared, signal }: Context): Promise<Look> {
  const { paths, settings, schedule } = company
  const notAsked = (why: string): Look => ({ isNew: true, why, hasAsked: false })
  // A run refuses it; but its index may fit, if it is a copy.
  if ((await checkDirectory(shared.queues, company)) !== null) return notAsked('this is another directory')
  if (await combineFollowers(settings, paths).isBehind())
    return notAsked('a reader does not have the latest snapshot')
  // Loaded at the first look: a worker that only starts runs needs no HTTP client.
  const { look } = await import('#src/operate/look.ts')
  const within = AbortSignal.any([signal, AbortSignal.timeout(LOOK_WITHIN_MS)])
  const sharedLog = settings.remoteLog && getHosts().open(settings.remoteLog, paths, within)
  try {
    return await look({
      paths,
      settings,
      now: () => new Date(),
      maxAgeMs: schedule.runAtLeastEveryMs,
      openApi: () => openApi(company, shared, within),
      ...(sharedLog ? { isOther: async segment => (await sharedLog.standing(segment)) !== 'same' } : {}),
      signal: within,
    })
  } finally {
    await sharedLog?.release()
  }
}

/** Returns null while another process holds the company: API_MAX_RPS and API_CONCURRENCY hold for both together. */
async function openApi(
  { slug, environment, paths }: Company,
  { metrics }: Context['shared'],
  signal: AbortSignal,
): Promise<LookApi | null> {
  if ((await lockHolder(paths.lock)) !== null) return null
  const { createApiClient } = await import('#src/core/api/client.ts')
  const api = readApiSettings(environment)
  return createApiClient({
    ...api,
    retries: Math.min(api.retries, MAX_RETRIES),
    maxBodyBytes: MAX_PAGE_BYTES,
    signal,
    nowMs: () => performance.now(),
    onAnswer: answer => metrics.observeAnswers(slug, [answer]),
  })
}
