import type { StoredSegments } from '#src/core/extra.ts'
import type { S3Settings } from '#src/lib/objects/place.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { hashOfSegment, readStored, type StoredLog } from './segments.ts'

/** Segments that are requested from the store at once: one takes some 20 ms, and a year's log has 26,000. */
const AHEAD = 8

/** Opens the segments in the object store. @param last the last segment that may be read from it. */
export async function openStored(
  settings: S3Settings,
  company: string,
  last: number,
): Promise<StoredSegments> {
  const store = await openS3(settings)
  const place = { store, paths: { company } }
  const ahead = new Map<number, Promise<Buffer>>()
  return {
    hashOf: number => hashOfSegment(store, company, number),
    async read(number) {
      for (let next = number; next <= Math.min(last, number + AHEAD); next += 1)
        if (!ahead.has(next)) ahead.set(next, begun(place, next))
      const content = ahead.get(number) as Promise<Buffer>
      ahead.delete(number)
      return await content
    },
    close: () => store.close(),
  }
}

/** Starts to read a segment. Its failure ends nothing by itself: a reader may end before it awaits it. */
function begun(place: StoredLog, number: number): Promise<Buffer> {
  const content = readStored(place, number)
  content.catch(() => {})
  return content
}
