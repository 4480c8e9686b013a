import { hashOf } from '#src/lib/hash.ts'

/** Ids and names that derive from what they name: equal content gets equal names from any writer. */

/** Derives an id from a name, in the form of a UUID of version 5. */
export function uuidOf(name: string): string {
  const hex = hashOf(name)
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `5${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}
