import { Refusal } from '#src/api/server/source.ts'
import { KEPT_MINUTES } from '../kept_snapshots.ts'
import type { ServedSnapshot } from '../snapshot.ts'
import type { MirrorSource } from './route.ts'

/** The end of a page: in which snapshot, of which search, and with which notice. */
type Cursor = { readonly snapshot: string; readonly search: string; readonly last: number }

export function writeSearchCursor({ snapshot, search, last }: Cursor): string {
  return Buffer.from(JSON.stringify([snapshot, search, last])).toString('base64url')
}

/**
 * Returns the snapshot that a cursor continues in, and the ordinal of the last notice before.
 * @param search identifies the search that it must come from.
 * @throws Refusal (400) if it is not from this search, (410) if the snapshot is no longer there.
 */
export function readSearchCursor(
  text: string,
  search: string,
  source: Pick<MirrorSource, 'findSnapshot'>,
): { snapshot: ServedSnapshot; last: number } {
  const cursor = parse(text)
  if (!cursor) throw refusal('cursor: not a cursor of this search. Begin again without it.')
  const snapshot = source.findSnapshot(({ name }) => name === cursor.snapshot)
  if (!snapshot) {
    const message = `The snapshot of this cursor was replaced, and is no longer kept: that ends ${KEPT_MINUTES} minutes after it was read last, or earlier if many others are read. Begin again without cursor.`
    throw new Refusal(410, message, null, 'snapshot_gone')
  }
  if (cursor.search !== search || cursor.last >= snapshot.size)
    throw refusal('cursor: it belongs to another search. Send the parameters of the first page with it.')
  return { snapshot, last: cursor.last }
}

function parse(text: string): Cursor | null {
  try {
    const [snapshot, search, last] = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[]
    if (typeof snapshot !== 'string' || typeof search !== 'string') return null
    return Number.isSafeInteger(last) && (last as number) >= 0
      ? { snapshot, search, last: last as number }
      : null
  } catch {
    return null
  }
}

function refusal(message: string): Refusal {
  return new Refusal(400, message, null, 'invalid_parameter')
}
