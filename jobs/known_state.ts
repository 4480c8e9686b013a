import { type Failure, readFailure } from '#src/store/failure.ts'
import { type KnownState, readState } from '#src/store/state.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { fromRedis } from './within.ts'

/** How the last run of a company ended, and the later ones without a report. */
export type Known = { readonly state: KnownState | null; readonly failure: Failure | null }

const WITHIN_MS = 1000

type Shared = Pick<Queues, 'redis' | 'prefix'>
type Of = Pick<Company, 'slug' | 'paths' | 'settings'>

/**
 * What is known of a company. If hosts share its log, its last run may have been on another one: then the newer of what
 * is on this disk and what workers left in Redis.
 */
export async function knownState(shared: Shared, company: Of): Promise<Known> {
  const own = await onThisDisk(company)
  if (company.settings.remoteLog === null) return own
  const elsewhere = await fromRedis(shared.redis, WITHIN_MS, () =>
    shared.redis.hget(keyOf(shared), company.slug),
  )
    .then(text => (text ? (JSON.parse(text) as Known) : null))
    // Until Redis is back, this disk's must do.
    .catch(() => null)
  return elsewhere !== null && isNewer(elsewhere, own) ? elsewhere : own
}

/**
 * Tells the workers on other hosts how a run or a look on this one ended, unless they know of a later one. Nothing to do
 * if the disk is shared.
 */
export async function shareState(shared: Shared, company: Of): Promise<void> {
  if (company.settings.remoteLog === null) return
  const own = await onThisDisk(company)
  const known = await shared.redis.hget(keyOf(shared), company.slug)
  // One run of a company ends at a time, so nothing comes in between.
  if (known === null || isNewer(own, JSON.parse(known) as Known))
    await shared.redis.hset(keyOf(shared), company.slug, JSON.stringify(own))
}

async function onThisDisk({ paths }: Of): Promise<Known> {
  const [state, failure] = await Promise.all([readState(paths), readFailure(paths)])
  return { state, failure }
}

function keyOf({ prefix }: Shared): string {
  return `${prefix}:states`
}

/** The log is the clock that hosts have in common; within one run, the time of the host that it was on. */
function isNewer(one: Known, other: Known): boolean {
  const [mine, theirs] = [one, other].map(({ state }) => state?.raw_log.segments ?? 0) as [number, number]
  return mine === theirs ? timeOf(one) > timeOf(other) : mine > theirs
}

function timeOf({ state, failure }: Known): number {
  const times = [state?.last_run.finished_at, state?.looked_at, failure?.at].map(
    at => Date.parse(at ?? '') || 0,
  )
  return Math.max(...times)
}
