import { randomUUID } from 'node:crypto'
import type { Reach } from '#src/extras/extra.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { RemoteError } from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { currentOwner, ownerKey } from './owner.ts'
import { directoryKey } from './segments.ts'

/** A tag that no object has. */
const NO_TAG = '"editais-sync"'

/**
 * Returns whether this host could take over a company's log: it may read, list and write there. Changes nothing: the store
 * refuses the write for its condition, and one without the right to write refuses it before.
 */
export async function reachLog(settings: S3Settings, company: string, signal: AbortSignal): Promise<Reach> {
  let aheadMs: number | null = null
  try {
    const store = await openS3(settings, { signal, onDate: ms => (aheadMs = ms) })
    try {
      await currentOwner(store, company)
      for await (const _ of store.list(`${directoryKey(company)}/`)) break
      await store
        .put(`${ownerKey(company)}.probe`, Buffer.from(randomUUID()), { tag: NO_TAG })
        .catch(error => {
          // Amazon S3 says so if the condition names a version of an object that does not exist.
          if (!isMissing(error)) throw error
        })
    } finally {
      store.close()
    }
    return { problem: null, aheadMs }
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error
    return { problem: error.message, aheadMs }
  }
}

function isMissing(error: unknown): boolean {
  const { cause } = error as { cause?: { $metadata?: { httpStatusCode?: number } } }
  return error instanceof RemoteError && cause?.$metadata?.httpStatusCode === 404
}
