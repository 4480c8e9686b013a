import type { Expiry } from '#src/extras/object_store/tables/format.ts'
import { SNAPSHOT_TAG, type TableMetadata } from './metadata.ts'

/** Snapshots of the lake that a table has, by its tags; and those that have expired. */
export function expiry(
  { refs }: TableMetadata,
  older: Expiry,
): { readonly snapshots: readonly string[]; readonly expired: ReadonlySet<string> } {
  const tags = Object.keys(refs).filter(ref => ref.startsWith(SNAPSHOT_TAG))
  const snapshots = tags.map(name => name.slice(SNAPSHOT_TAG.length)).sort()
  return { snapshots, expired: expiredOf(snapshots, older) }
}

/**
 * Returns the snapshots that have expired. What counts is when a newer one appeared: until then readers could begin to read it.
 * Names begin with their time.
 */
function expiredOf(names: readonly string[], { keepMs, now }: Expiry): ReadonlySet<string> {
  const expired = names.filter((_, index) => {
    const successor = names[index + 1]
    return successor !== undefined && now.getTime() - timeOf(successor) > keepMs
  })
  return new Set(expired)
}

/** Reads the time from a snapshot's name, such as `20261123T070105Z-000020`. */
function timeOf(snapshot: string): number {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(snapshot) ?? []
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
}
