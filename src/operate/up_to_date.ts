import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { sealedSegments } from '#src/core/rawlog/files.ts'
import { openWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { holdingDisk, type Listener } from '#src/extras/hold.ts'
import { bringing, noteRestored } from './open.ts'

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
  return await holdingDisk(context, listener, held, async () => {
    try {
      noteRestored(await sharedLog.bring(bringing(context, listener)), listener)
      const warehouse = await openWarehouse(openOptions(context))
      await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
      return (await sealedSegments(paths.raw)).length
    } finally {
      await sharedLog.release()
    }
  })
}
