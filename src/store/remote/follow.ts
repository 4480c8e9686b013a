import type { RemoteLakeSettings } from '#config/remote_lake.ts'
import { explain } from '#src/platform/errors.ts'
import { Database } from '#src/store/warehouse/database.ts'
import type { Manifest } from '../lake/manifest.ts'
import type { Formats } from './format.ts'
import { withFormats } from './formats.ts'
import { type ObjectStore, RemoteError } from './objects.ts'
import { publishRemote, type RemotePublished } from './publish.ts'
import { openS3 } from './s3.ts'
import { readRemoteState, writeRemoteState } from './state.ts'

export type FollowRequest = {
  readonly settings: RemoteLakeSettings
  readonly lake: string
  readonly temporary: string
  /** The file that remembers the state. */
  readonly path: string
  readonly manifest: Manifest
  readonly now: Date
  readonly isThorough?: boolean
}

/**
 * Brings the latest snapshot to the object store, and remembers the outcome.
 * Never throws: the local lake is right even if the store is down, slow or refuses. The next run tries again.
 */
export async function followRemote(request: FollowRequest): Promise<string | null> {
  const { settings, path, manifest, now } = request
  const state = await readRemoteState(path)
  const dueMs = Date.parse(state?.published_at ?? '') + settings.intervalMs
  // What failed or was interrupted is not put off.
  if (state !== null && state.error === null && dueMs > now.getTime()) {
    const isThere = state.snapshot === manifest.snapshot
    await writeRemoteState(path, { ...state, due_at: isThere ? null : new Date(dueMs).toISOString() })
    return null
  }
  return await publishTo(request).then(
    () => null,
    error => errorOf(error),
  )
}

/** @throws RemoteError, after it has remembered it. */
export async function publishTo(request: FollowRequest): Promise<RemotePublished> {
  const { settings, lake, temporary, path, manifest, now, isThorough = false } = request
  const before = await readRemoteState(path)
  const tried_at = now.toISOString()
  const known = { snapshot: null, published_at: null, pending: null, ...before, tried_at, due_at: null }
  const behind_since = before?.behind_since ?? tried_at
  let { pending } = known
  const onBegin = async (snapshot: string) => {
    pending = snapshot
    const error = 'The publish was interrupted.'
    await writeRemoteState(path, { ...known, pending, error, behind_since })
  }
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    const published = await withTables(settings, manifest.company, ({ store, formats }) =>
      publishRemote(store, db, { formats, lake, temporary, manifest, now, isThorough, onBegin }),
    )
    const { snapshot } = published
    const done = { pending: null, error: null, behind_since: null, due_at: null }
    await writeRemoteState(path, { tried_at, snapshot, published_at: tried_at, ...done })
    return published
  } catch (error) {
    const why = errorOf(error)
    await writeRemoteState(path, { ...known, pending, error: why, behind_since }).catch(() => {})
    throw error
  } finally {
    db.close()
  }
}

export async function withS3<T>(
  settings: RemoteLakeSettings,
  use: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const store = await openS3(settings)
  try {
    return await use(store)
  } finally {
    store.close()
  }
}

/** With the object store, and a company's tables there. */
export async function withTables<T>(
  settings: RemoteLakeSettings,
  company: string,
  use: (opened: { readonly store: ObjectStore; readonly formats: Formats }) => Promise<T>,
): Promise<T> {
  return await withS3(settings, store =>
    withFormats(store, settings, company, formats => use({ store, formats })),
  )
}

function errorOf(error: unknown): string {
  return error instanceof RemoteError ? error.message : explain(error).message
}
