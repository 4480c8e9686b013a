import { hasOffset, readTime } from '#schema/times.ts'
import type { Api } from '#src/core/api/client.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { RequestError, throwIfInterrupted } from '#src/lib/errors.ts'
import type { ListedFile } from './listed.ts'
import { validateNotice } from './validate.ts'

/** With fewer live notices than this, an empty list is plausible. */
const GUARD_FROM_LIVE = 20
/** Verified deletions above both this share of the live notices and this count are held back. */
const GUARD_SHARE = 0.05
const GUARD_COUNT = 20

/** After this many failures in a row, the rest are not checked in this run. */
const GIVE_UP_FAILURES = 20
/** A key that can read none of this many stored notices belongs to another company. */
const SAMPLED_NOTICES = 3

/**
 * Checks invariant I10 for a filtered list, which need not show what the warehouse holds. True if the list shows only unknown
 * notices, and stored ones do not exist for this key or are different notices with the same id.
 */
export async function isForeignKey(db: Database, api: Pick<Api, 'notice'>): Promise<boolean> {
  if ((await countLive(db)) < GUARD_FROM_LIVE || (await showsStored(db, 'true'))) return false
  const sample = await db.rows<{ id: string; createdUs: bigint }>(
    `SELECT edital_id AS id, epoch_us(created_at) AS "createdUs" FROM editais WHERE deleted_at IS NULL ORDER BY updated_at DESC LIMIT ${SAMPLED_NOTICES}`,
  )
  for (const { id, createdUs } of sample) {
    const answer = await api.notice(id)
    if (answer.kind === 'absent') continue
    if (answer.kind !== 'body' || !isAnother(answer.bytes, BigInt(createdUs))) return false
  }
  return true
}

/** Returns true only on evidence that the notice is another: an unreadable body or a time without an offset proves nothing. */
function isAnother(bytes: Buffer, createdUs: bigint): boolean {
  try {
    const { created_at } = JSON.parse(bytes.toString('utf8')) as { created_at?: unknown }
    const time = readTime(String(created_at), 'UTC')
    if (time === null || !hasOffset(String(created_at))) return false
    const { micros } = time
    return micros !== createdUs && !COARSER_US.some(unit => isRounded(micros, createdUs, BigInt(unit)))
  } catch {
    return false
  }
}

/** Checks invariant I10: true if the list shows none of the notices in the warehouse. */
export async function isAnotherCompany(db: Database): Promise<boolean> {
  return (await countLive(db)) >= GUARD_FROM_LIVE && !(await showsStored(db, 'e.deleted_at IS NULL'))
}

async function countLive(db: Database): Promise<number> {
  const { live } = await db.row<{ live: number }>(
    'SELECT count(*) AS live FROM editais WHERE deleted_at IS NULL',
  )
  return live
}

/** An API that writes fewer digits than before writes milliseconds or seconds. */
const COARSER_US = [1000, 1_000_000] as const

/** Returns whether one of two times may be the other one, written to a unit: cut off or rounded. */
function isRounded(one: bigint, other: bigint, unitUs: bigint): boolean {
  const apart = one > other ? one - other : other - one
  return apart < unitUs && (one % unitUs === 0n || other % unitUs === 0n)
}

/**
 * Returns whether the list shows a notice that is stored. Two companies may have equal ids; but `created_at`, when each began to
 * follow the notice, differs. Where it is merely less exact than before, that must be so of most notices that are in both:
 * two companies may have begun to follow one of them in the same second.
 * @param which of the stored notices, as a condition on `editais e`.
 */
async function showsStored(db: Database, which: string): Promise<boolean> {
  const [one, other] = ['epoch_us(l.created_at)', 'epoch_us(e.created_at)']
  const rounded = COARSER_US.map(
    unit => `(abs(${one} - ${other}) < ${unit} AND (${one} % ${unit} = 0 OR ${other} % ${unit} = 0))`,
  )
  const { common, same, close } = await db.row<Record<'common' | 'same' | 'close', number>>(
    `SELECT count(*) AS common, count(*) FILTER (coalesce(l.created_at = e.created_at, true)) AS same,
       count(*) FILTER (${rounded.join(' OR ')}) AS close
     FROM listed l JOIN editais e USING (edital_id) WHERE ${which}`,
  )
  return same > 0 || close * 2 > common
}

export type Missing = {
  /** Answered 404, so their deletion is verified. */
  readonly gone: readonly string[]
  /** How many still exist and were added to `listed`. */
  readonly found: number
  /** The guard held: there are implausibly many, so none gets a tombstone. */
  readonly held: boolean
  /** No usable answer: nothing is concluded about them. */
  readonly unverified: readonly { id: string; reason: string }[]
}

/**
 * Requests each live notice that the list did not show (invariant I4). Those that still exist are added to
 * `listed` like any other row. Stops once the guard holds.
 */
export async function verifyMissing(options: {
  db: Database
  api: Pick<Api, 'notice' | 'concurrency'>
  listed: ListedFile
  allowMassDelete: boolean
  signal: AbortSignal
}): Promise<Missing> {
  const { db, api } = options
  const missing = await findMissingNotices(db)
  if (missing.length === 0) return { gone: [], found: 0, held: false, unverified: [] }
  const live = await countLive(db)
  const bound = options.allowMassDelete ? Number.POSITIVE_INFINITY : Math.max(GUARD_COUNT, live * GUARD_SHARE)
  const gone: string[] = []
  let found = 0
  let failuresInARow = 0
  const mayContinue = () => gone.length <= bound && failuresInARow < GIVE_UP_FAILURES
  const unverified: { id: string; reason: string }[] = []

  async function work(stopped: () => boolean): Promise<void> {
    for (let next = missing.pop(); next && mayContinue() && !stopped(); next = missing.pop()) {
      throwIfInterrupted(options.signal)
      const { id } = next
      try {
        const answer = await api.notice(id)
        failuresInARow = 0
        if (answer.kind === 'absent') gone.push(id)
        else if (answer.kind === 'body') {
          found += 1
          await options.listed.add([validateNotice(answer.bytes, id)])
        } else unverified.push({ id, reason: 'its answer is too large' })
      } catch (error) {
        if (!(error instanceof RequestError)) throw error
        unverified.push({ id, reason: error.message })
        failuresInARow += 1
      }
    }
  }
  await runConcurrently(Math.min(api.concurrency, missing.length), work)
  const held = gone.length > bound
  return { gone: held ? [] : gone, found, held, unverified }
}

/** Returns the live notices that the list did not show. */
export async function findMissingNotices(db: Database): Promise<{ id: string }[]> {
  return await db.rows(
    `SELECT edital_id AS id FROM editais WHERE deleted_at IS NULL
     AND edital_id NOT IN (SELECT edital_id FROM listed WHERE edital_id IS NOT NULL) ORDER BY edital_id`,
  )
}

/** Finds quarantined list items that never became a notice and are no longer listed. Only a whole, unfiltered pass shows this. */
export async function findUnlistedRecords(
  db: Database,
): Promise<{ edital_id: string | null; hash: string }[]> {
  return await db.rows(
    `SELECT edital_id, _hash AS hash FROM quarantine WHERE kind = 'notice' AND resolved_at IS NULL
       AND coalesce(edital_id, _hash) NOT IN (SELECT coalesce(edital_id, hash) FROM listed)
       AND (edital_id IS NULL OR edital_id NOT IN (SELECT edital_id FROM editais))`,
  )
}
