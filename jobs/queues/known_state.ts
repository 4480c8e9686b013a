import { type Failure, readFailure } from '#src/core/company/run_report.ts'
import { type KnownState, LogPosition, readState } from '#src/core/company/state.ts'
import type { Standing } from '#src/extras/extra.ts'
import { getHosts } from '#src/extras.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { askRedis } from './redis.ts'

/** How the last run of a company ended, and the later ones without a report. */
export type Known = { readonly state: KnownState | null; readonly failure: Failure | null }

const WITHIN_MS = 1000
/** For the store's answer whether its log is later. */
const STORE_WITHIN_MS = 10_000
/** Some 200 kB of answer: Redis serves no other client meanwhile. */
const ASKED_AT_ONCE = 200

type Shared = Pick<Queues, 'redis' | 'prefix'>
type Of = Pick<Company, 'slug' | 'paths' | 'settings'>

/**
 * Returns what is known of a company. If hosts share its log, its last run may have been on another one: then what workers left
 * in Redis counts, unless the log on this disk is later.
 */
export async function readKnownState(shared: Shared, company: Of): Promise<Known> {
  const [known] = await readKnownStates(shared, [company])
  return known as Known
}

/** Returns what is known of each of the companies, in their order. */
export async function readKnownStates(shared: Shared, companies: readonly Of[]): Promise<Known[]> {
  const elsewhere = await statesInRedis(
    shared,
    companies.filter(({ settings }) => settings.remoteLog !== null).map(({ slug }) => slug),
  )
  return await Promise.all(
    companies.map(async company => {
      const own = await onThisDisk(company)
      const known = elsewhere.get(company.slug)
      // Redis has the last word of all hosts, unless it missed that of this one.
      const isOwn =
        !known || (known.state === null && own.state !== null) || compareKnown(known, own) === 'before'
      return isOwn ? own : known
    }),
  )
}

/** Returns what workers left in Redis. Until Redis is back, what is on this disk must do. */
async function statesInRedis(shared: Shared, slugs: readonly string[]): Promise<ReadonlyMap<string, Known>> {
  const found = new Map<string, Known>()
  for (let from = 0; from < slugs.length; from += ASKED_AT_ONCE) {
    const some = slugs.slice(from, from + ASKED_AT_ONCE)
    const texts = await askRedis(shared.redis, WITHIN_MS, () =>
      shared.redis.hmget(composeKey(shared), ...some),
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

/** Returns null if another version of the program wrote it in another form. */
function readable(text: string): Known | null {
  try {
    return JSON.parse(text) as Known
  } catch {
    return null
  }
}

/**
 * Shares with the workers on other hosts how a run or a look on this one ended, unless another host has run the company since.
 * Nothing to do if the disk is shared.
 */
export async function shareState(shared: Shared, company: Of): Promise<void> {
  const { slug, settings } = company
  if (settings.remoteLog === null) return
  const own = await onThisDisk(company)
  const text = await shared.redis.hget(composeKey(shared), slug)
  const known = text === null ? null : readable(text)
  // Also of a disk whose log is no longer the store's: what it knows is of another life of the company.
  const isOlder = known !== null && known.state !== null && (await isOlderThan(known, own, company))
  const shown: Known = isOlder ? { ...known, failure: own.failure ?? known.failure } : own
  await shared.redis.hset(composeKey(shared), slug, JSON.stringify(shown))
}

async function isOlderThan(known: Known, own: Known, company: Of): Promise<boolean> {
  if (own.state === null) return true
  const order = compareKnown(known, own)
  // As usual: this host ran the company last, to the end, so its log is the store's. A look leaves the same run.
  if (own.failure === null && (order === 'before' || order === 'same')) return false
  const standing = await readStanding(company, own.state.raw_log.segments)
  // The store cannot be asked.
  if (standing === null) return order === 'after'
  return standing === 'other' || (standing === 'later' && order === 'after')
}

/**
 * Returns what the store has beside the log on this disk; null if it cannot be asked now, or hosts share no log.
 * @param segment one that this disk has, after which the store may have more; by default its last one.
 */
export async function readStanding({ paths, settings }: Of, segment?: number): Promise<Standing | null> {
  if (settings.remoteLog === null) return null
  const log = getHosts().open(settings.remoteLog, paths, AbortSignal.timeout(STORE_WITHIN_MS))
  try {
    return await log.standing(segment)
  } catch {
    return null
  } finally {
    await log.release()
  }
}

/** Returns whether another host ran the company after this one: then a look here cannot replace a run, but there it can. */
export async function isLastRunElsewhere(shared: Shared, company: Of): Promise<boolean> {
  return (await findLaterElsewhere(shared, company)) !== null
}

/** Returns the id of the last run, if another host ran the company after this one; null otherwise. */
export async function findLaterElsewhere(shared: Shared, company: Of): Promise<string | null> {
  const { slug, settings } = company
  if (settings.remoteLog === null) return null
  const [own, elsewhere] = await Promise.all([onThisDisk(company), statesInRedis(shared, [slug])])
  const known = elsewhere.get(slug)
  if (!known?.state) return null
  const { run_id } = known.state.last_run
  const order = compareKnown(known, own)
  return run_id !== own.state?.last_run.run_id && (order === 'after' || order === null) ? run_id : null
}

/**
 * Forgets what workers left of runs that a restored log does not have: later ones, and those of another log.
 * @param end how far the restored log goes; null if its name is not known.
 * @returns whether anything was forgotten.
 */
export async function forgetLaterRuns(
  shared: Shared,
  slug: string,
  end: LogPosition | null,
): Promise<boolean> {
  const state = (await statesInRedis(shared, [slug])).get(slug)?.state
  if (!state) return false
  const last = LogPosition.of(state.log, state.raw_log.segments)
  const order = last && end ? last.compare(end) : null
  if (order === 'before' || order === 'same') return false
  await shared.redis.hdel(composeKey(shared), slug)
  return true
}

async function onThisDisk({ paths }: Of): Promise<Known> {
  const [state, failure] = await Promise.all([readState(paths), readFailure(paths)])
  return { state, failure }
}

function composeKey({ prefix }: Shared): string {
  return `${prefix}:states`
}

/** Compares what two hosts know by the position in the log, the clock that they have in common; null if their logs differ. */
function compareKnown(one: Known, other: Known): ReturnType<LogPosition['compare']> {
  // Version 0.2.0 did not write the log's name.
  const isNamed = one.state?.log != null && other.state?.log != null
  const [mine, theirs] = [one, other].map(({ state }) =>
    state ? LogPosition.of(isNamed ? state.log : 'unnamed', state.raw_log.segments) : null,
  )
  return mine && theirs ? mine.compare(theirs) : null
}
