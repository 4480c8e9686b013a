import { join } from 'node:path'
import { remove } from '#src/platform/durable.ts'
import type { Manifest } from './manifest.ts'

/** The last ones stay whatever their age: the latest, and the one that readers may just have opened. */
const ALWAYS_KEPT = 2

/**
 * Removes snapshots that were superseded longer ago than `keepMs`. What counts is when a newer one
 * appeared, not when it was written: until then readers opened it. Never one of `inUse`.
 * @param manifests of all that are there, in the order in which they were written.
 * @returns those that are left.
 */
export async function removeExpired(
  directory: string,
  manifests: readonly Manifest[],
  { keepMs, now, inUse }: { keepMs: number; now: Date; inUse: readonly (string | null | undefined)[] },
): Promise<Manifest[]> {
  const expired = manifests.slice(0, -ALWAYS_KEPT).filter(({ snapshot, created_at }, index) => {
    const successor = manifests[index + 1]
    if (inUse.includes(snapshot) || successor === undefined) return false
    // The successor may be older by the clock, where that was put back or the log was cut short.
    const since = Math.max(Date.parse(successor.created_at), Date.parse(created_at))
    return now.getTime() - since > keepMs
  })
  for (const { snapshot } of expired) {
    // First what makes it a snapshot: one that is half removed must not look whole.
    await remove('expired.unlist', join(directory, snapshot, 'manifest.json'))
    await remove('expired.remove', join(directory, snapshot))
  }
  return manifests.filter(manifest => !expired.includes(manifest))
}
