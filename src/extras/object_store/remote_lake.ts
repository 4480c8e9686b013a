import { join } from 'node:path'
import type { RemoteLakeSettings } from '#config/lake.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import {
  type Manifest,
  readLatestName,
  readManifest,
  requireLatest,
  snapshotsDirectory,
} from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import type { PublishedElsewhere } from '#src/extras/extra.ts'
import { closing } from '#src/lib/closing.ts'
import { explain, InterruptedError } from '#src/lib/errors.ts'
import type { ObjectStore } from '#src/lib/objects/objects.ts'
import type { PatienceOptions } from '#src/lib/objects/patience.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { createDeltaTables } from './delta/table.ts'
import { openCatalogTables } from './iceberg/catalog.ts'
import { createIcebergTables } from './iceberg/table.ts'
import { keepMarts, publishRemote, withMarts } from './publish.ts'
import { type RemoteState, readRemoteState, writeRemoteState } from './state.ts'
import type { Formats, TableFormat, TableKeeper } from './tables/format.ts'

/** Opens all formats that are published, for as long as `use` takes. */
async function withFormats<T>(
  store: ObjectStore,
  { formats, catalog }: Pick<RemoteLakeSettings, 'formats' | 'catalog'>,
  company: string,
  use: (opened: Formats) => Promise<T>,
): Promise<T> {
  const opened = new Map<TableKeeper, TableFormat>()
  try {
    for (const format of formats) {
      if (format === 'delta') opened.set('delta', createDeltaTables(store, company))
      else if (catalog) opened.set('catalog', await openCatalogTables(store, catalog, company))
      else opened.set('iceberg', createIcebergTables(store, company))
    }
    return await use(opened)
  } finally {
    for (const one of opened.values()) one.close()
  }
}

/** A company's local files that a publish reads and writes. */
type RemotePaths = Pick<CompanyPaths, 'lake' | 'remote' | 'remoteMarts'>

type FollowRequest = {
  readonly settings: RemoteLakeSettings
  readonly paths: RemotePaths
  readonly now: () => Date
  /** Aborted when the process is to end. The next publish finishes what was begun. */
  readonly signal: AbortSignal
  readonly isThorough?: boolean
  readonly isNewLog?: boolean
  /** See PatienceOptions. */
  readonly silenceMs?: number
}

/**
 * Publishes the latest snapshot of the lake to the object store, and remembers the outcome. Runs may continue:
 * the snapshot that is read is kept. The caller holds the company's lock for the object store.
 * @throws RemoteError if the store refuses, and FatalError if nothing was published locally.
 */
export async function publishLatest(request: FollowRequest): Promise<PublishedElsewhere> {
  const { lake } = request.paths
  for (;;) {
    const manifest = await requireLatest(lake)
    try {
      return await publishOne(request, manifest)
    } catch (error) {
      // With a short SNAPSHOT_KEEP, a run may have removed it just before it was marked as being read.
      const isGone = (await readManifest(join(snapshotsDirectory(lake), manifest.snapshot))) === null
      if (!isGone || (await readLatestName(lake)) === manifest.snapshot) throw error
    }
  }
}

async function publishOne(
  { settings, paths, now, signal, isThorough = false, isNewLog = false, silenceMs }: FollowRequest,
  manifest: Manifest,
): Promise<PublishedElsewhere> {
  const { lake, remote: path, remoteMarts: martsDirectory } = paths
  const at = now()
  const tried_at = at.toISOString()
  let known: RemoteState = { ...(await stateBefore(path)), tried_at, reading: manifest.snapshot }
  await writeRemoteState(path, known)
  const onBegin = async (pending: string) => {
    known = { ...known, pending }
    await writeRemoteState(path, known)
  }
  const temporary = join(martsDirectory, 'tmp')
  await keepMarts(martsDirectory, [manifest.snapshot, known.pending, known.snapshot])
  const db = await Database.open(':memory:', { threads: 1, temporaryDirectory: temporary })
  try {
    const places = { lake, martsDirectory }
    const local = (manifest: Manifest) => withMarts(db, manifest, places)
    const published = await withTables(
      settings,
      { company: manifest.company, signal, ...(silenceMs ? { silenceMs } : {}) },
      ({ store, formats }) =>
        publishRemote(store, db, {
          ...{ formats, lake, local, temporary, manifest, now: at },
          ...{ isThorough, isNewLog, onBegin },
        }),
    )
    const due_at = new Date(at.getTime() + settings.intervalMs).toISOString()
    const { snapshot } = published
    await writeRemoteState(path, { ...BLANK, tried_at, snapshot, published_at: tried_at, due_at })
    await keepMarts(martsDirectory, [snapshot])
    return published
  } catch (error) {
    const behind_since = known.behind_since ?? tried_at
    const why = error instanceof InterruptedError ? INTERRUPTED : explain(error).message
    const failed = { ...known, reading: null, error: why, behind_since }
    await writeRemoteState(path, failed).catch(() => {})
    throw error
  } finally {
    db.close()
  }
}

/** Opens the object store for as long as `use` takes. @param signal aborted when the process is to end. */
export async function withS3<T>(
  settings: RemoteLakeSettings,
  signal: AbortSignal | undefined,
  use: (store: ObjectStore) => Promise<T>,
  patience: Pick<PatienceOptions, 'silenceMs'> = {},
): Promise<T> {
  using store = closing(await openS3(settings, signal ? { ...patience, signal } : patience))
  return await use(store)
}

const INTERRUPTED = 'The publish was interrupted.'
const BLANK: Omit<RemoteState, 'tried_at'> = {
  snapshot: null,
  published_at: null,
  reading: null,
  pending: null,
  error: null,
  behind_since: null,
  due_at: null,
}

async function stateBefore(path: string): Promise<Omit<RemoteState, 'tried_at'>> {
  const before = await readRemoteState(path)
  if (before === null) return BLANK
  // That attempt never ended.
  const isDead = before.reading !== null && before.error === null
  return isDead ? { ...before, error: INTERRUPTED, behind_since: before.tried_at } : before
}

type Using = Pick<PatienceOptions, 'signal' | 'silenceMs'> & { readonly company: string }

/** Opens the object store and a company's tables there, for as long as `use` takes. */
export async function withTables<T>(
  settings: RemoteLakeSettings,
  { company, signal, ...patience }: Using,
  use: (opened: { readonly store: ObjectStore; readonly formats: Formats }) => Promise<T>,
): Promise<T> {
  const work = (store: ObjectStore) =>
    withFormats(store, settings, company, formats => use({ store, formats }))
  return await withS3(settings, signal, work, patience)
}
