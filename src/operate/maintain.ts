import { stat, statfs } from 'node:fs/promises'
import {
  listFinishedSnapshots,
  readLatestName,
  removeExpired,
  snapshotsDirectory,
} from '#src/core/lake/manifest.ts'
import type { Published } from '#src/core/lake/publish.ts'
import { openSnapshot } from '#src/core/lake/read.ts'
import { openOptions, publishWarehouse, type RunContext } from '#src/core/pipeline/run.ts'
import { listSealedSegments, measureRawLog } from '#src/core/rawlog/files.ts'
import { openWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext, Publishing } from '#src/extras/extra.ts'
import { holdDisk, type Listener } from '#src/extras/hold.ts'
import { closing } from '#src/lib/closing.ts'
import { getMessage } from '#src/lib/errors.ts'
import { findPublisher } from './extras.ts'
import { createBringing, noteRestored } from './open.ts'

/** Result of the nightly maintenance; bytes and counts. */
export type Maintenance = {
  readonly snapshots_removed: number
  readonly snapshots_kept: number
  readonly raw_log: { readonly segments: number; readonly bytes: number }
  readonly warehouse_bytes: number
  readonly disk: { readonly free_bytes: number; readonly free_share: number }
  /** The objects removed from the object store; null if there is none. */
  readonly remote: RemoteMaintenance | null
  readonly quarantined: number
  readonly drift: readonly { readonly path: string; readonly kind: string; readonly count: number }[]
}

/** If it failed, the next maintenance does the rest. */
type RemoteMaintenance =
  | { readonly snapshots_removed: number; readonly objects_removed: number }
  | { readonly error: string }

/** How long the maintenance waits for a publish to end. */
const PUBLISH_WITHIN_SECONDS = 60
/** How much drift is reported; the rest is in the table `schema_drift`. */
const DRIFT_SHOWN = 20

/**
 * Maintains a company's files, even if its runs have failed for days: removes expired snapshots, measures disk
 * use, and sums up what needs attention. The caller holds the company's lock.
 */
export async function maintain(context: Publishing & Pick<RunContext, 'follower'>): Promise<Maintenance> {
  const { paths, settings, now, follower } = context
  const directory = snapshotsDirectory(paths.lake)
  const finished = await listFinishedSnapshots(directory)
  const kept = await removeExpired(directory, finished, {
    keepMs: settings.snapshotKeepMs,
    now: now(),
    inUse: [await readLatestName(paths.lake), ...(await follower.inUse())],
  })
  const disk = await statfs(paths.root)
  return {
    snapshots_removed: finished.length - kept.length,
    snapshots_kept: kept.length,
    raw_log: await measureRawLog(paths.raw),
    warehouse_bytes: await stat(paths.warehouse).then(
      ({ size }) => size,
      () => 0,
    ),
    disk: { free_bytes: disk.bavail * disk.bsize, free_share: disk.bavail / disk.blocks },
    remote: await vacuumed(context),
    ...(await troubles(paths.lake)),
  }
}

async function vacuumed(context: Publishing): Promise<RemoteMaintenance | null> {
  const held = { what: 'the nightly maintenance', waitSeconds: PUBLISH_WITHIN_SECONDS }
  const done = await findPublisher()?.vacuum(context, held).catch(getMessage)
  if (typeof done === 'string') return { error: done }
  return done ? { snapshots_removed: done.snapshotsRemoved, objects_removed: done.objectsRemoved } : null
}

/** Reads open quarantine and the most frequent drift from the latest snapshot. */
async function troubles(lake: string): Promise<Pick<Maintenance, 'quarantined' | 'drift'>> {
  if ((await readLatestName(lake)) === null) return { quarantined: 0, drift: [] }
  const { db } = await openSnapshot(lake)
  using _ = closing(db)
  const { open } = await db.row<{ open: number }>(
    'SELECT count(*)::INTEGER AS open FROM quarantine WHERE resolved_at IS NULL',
  )
  const drift = await db.rows<Maintenance['drift'][number]>(
    `SELECT path, kind, count::DOUBLE AS count FROM schema_drift ORDER BY count DESC, path LIMIT ${DRIFT_SHOWN}`,
  )
  return { quarantined: open, drift }
}

/**
 * Brings this host's lake to what the shared log has: the last run may have been on another host, and the next one may begin
 * there meanwhile. Nothing to do if the log is on this disk alone.
 * @returns the last segment that the lake has; 0 if there is nothing to do.
 * @throws FatalError (held) if another process on this disk holds the company for longer than the wait.
 */
export async function bringUpToDate(
  context: CompanyContext,
  listener: Listener,
  held: { readonly what: string; readonly waitSeconds?: number },
): Promise<number> {
  const { sharedLog, paths } = context
  if (sharedLog === null) return 0
  return await holdDisk(context, listener, held, async () => {
    try {
      noteRestored(await sharedLog.bring(createBringing(context, listener)), listener)
      await publishFrom(openWarehouse, context)
      return (await listSealedSegments(paths.raw)).length
    } finally {
      await sharedLog.release()
    }
  })
}

/** Opens the warehouse, or rebuilds it, and publishes what it has. */
export async function publishFrom(open: typeof openWarehouse, context: CompanyContext): Promise<Published> {
  const warehouse = await open(openOptions(context))
  return await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
}
