import { type Failure, readFailure } from '#src/store/failure.ts'
import { type KnownState, readState } from '#src/store/state.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { fromRedis } from './within.ts'

/** How the last run of a company ended, and the later ones without a report. */
export type Known = { readonly state: KnownState | null; readonly failure: Failure | null }

const WITHIN_MS = 1000
/** Some 200 kB of answer: Redis serves nobody else meanwhile. */
const ASKED_AT_ONCE = 200

type Shared = Pick<Queues, 'redis' | 'prefix'>
type Of = Pick<Company, 'slug' | 'paths' | 'settings'>

/**
 * What is known of a company. If hosts share its log, its last run may have been on another one: then the newer of what
 * is on this disk and what workers left in Redis.
 */
export async function knownState(shared: Shared, company: Of): Promise<Known> {
  const [known] = await knownStates(shared, [company])
  return known as Known
}

/** The same for many, in their order. */
export async function knownStates(shared: Shared, companies: readonly Of[]): Promise<Known[]> {
  const elsewhere = await statesInRedis(
    shared,
    companies.filter(({ settings }) => settings.remoteLog !== null).map(({ slug }) => slug),
  )
  return await Promise.all(
    companies.map(async company => {
      const own = await onThisDisk(company)
      const known = elsewhere.get(company.slug)
      return known && isNewer(known, own) ? known : own
    }),
  )
}

/** What workers left in Redis. Until Redis is back, what is on this disk must do. */
async function statesInRedis(shared: Shared, slugs: readonly string[]): Promise<ReadonlyMap<string, Known>> {
  const found = new Map<string, Known>()
  for (let from = 0; from < slugs.length; from += ASKED_AT_ONCE) {
    const some = slugs.slice(from, from + ASKED_AT_ONCE)
    const texts = await fromRedis(shared.redis, WITHIN_MS, () =>
      shared.redis.hmget(keyOf(shared), ...some),
    ).catch(() => null)
    // The others would wait as long.
    if (texts === null) break
    for (const [index, text] of texts.entries()) {
      const known = text && readable(text)
      if (known) found.set(some[index] as string, known)
    }
  }
  return found
}

/** Null if another version of the program wrote it in another form. */
function readable(text: string): Known | null {
  try {
    return JSON.parse(text) as Known
  } catch {
    return null
  }
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

/** Whether another host ran the company after this one: then a look here cannot replace a run, but there it can. */
export async function isLastRunElsewhere(shared: Shared, company: Of): Promise<boolean> {
  const { slug, settings } = company
  if (settings.remoteLog === null) return false
  const [own, elsewhere] = await Promise.all([onThisDisk(company), statesInRedis(shared, [slug])])
  return segmentsOf(elsewhere.get(slug)) > segmentsOf(own)
}

/**
 * Forgets what workers left of runs after this segment, because the log was restored from a backup that ends there.
 * @returns whether there was anything.
 */
export async function forgetLaterRuns(shared: Shared, slug: string, segment: number): Promise<boolean> {
  const known = (await statesInRedis(shared, [slug])).get(slug)
  if (segmentsOf(known) <= segment) return false
  await shared.redis.hdel(keyOf(shared), slug)
  return true
}

function segmentsOf(known: Known | undefined): number {
  return known?.state?.raw_log.segments ?? 0
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
  const [mine, theirs] = [segmentsOf(one), segmentsOf(other)]
  return mine === theirs ? timeOf(one) > timeOf(other) : mine > theirs
}

function timeOf({ state, failure }: Known): number {
  const times = [state?.last_run.finished_at, state?.looked_at, failure?.at].map(
    at => Date.parse(at ?? '') || 0,
  )
  return Math.max(...times)
}
