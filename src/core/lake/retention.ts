import { join } from 'node:path'
import { remove } from '#src/lib/durable.ts'
import type { Manifest } from './manifest.ts'

/** Kept at any age: the latest, and the one before it, which readers may have just opened. */
const ALWAYS_KEPT = 2

/**
 * Removes snapshots that were superseded longer than `keepMs` ago, but none of `inUse`. What counts is when a
 * newer one appeared, not when the snapshot was written, because readers opened it until then.
 * @param manifests of all existing snapshots, in the order in which they were written.
 * @returns the remaining ones.
 */
export async function removeExpired(
  directory: string,
  manifests: readonly Manifest[],
  { keepMs, now, inUse }: { keepMs: number; now: Date; inUse: readonly (string | null | undefined)[] },
): Promise<Manifest[]> {
  const expired = manifests.slice(0, -ALWAYS_KEPT).filter(({ snapshot, created_at }, index) => {
    const successor = manifests[index + 1]
    if (inUse.includes(snapshot) || successor === undefined) return false
    // The successor may look older if the clock was set back or the log was truncated.
    const since = Math.max(Date.parse(successor.created_at), Date.parse(created_at))
    return now.getTime() - since > keepMs
  })
  for (const { snapshot } of expired) {
    // The manifest goes first: a half-removed snapshot must not look complete.
    await remove('expired.unlist', join(directory, snapshot, 'manifest.json'))
    await remove('expired.remove', join(directory, snapshot))
  }
  return manifests.filter(manifest => !expired.includes(manifest))
}
