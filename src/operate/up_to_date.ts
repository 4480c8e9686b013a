import { openOptions, publishWarehouse, type RunContext } from '#src/pipeline/run.ts'
import { openWarehouse } from '#src/store/warehouse/warehouse.ts'
import { bringing, holdingDisk, type Listener, noteRestored } from './open.ts'

/**
 * Brings this host's lake to what the shared log has: the last run may have been on another host, and the next one may begin
 * there meanwhile. Nothing to do if the log is on this disk alone.
 * @throws FatalError (held) if another process on this disk holds the company for longer than the wait.
 */
export async function bringUpToDate(
  context: RunContext,
  listener: Listener,
  held: { readonly what: string; readonly waitSeconds?: number },
): Promise<void> {
  const { sharedLog } = context
  if (sharedLog === null) return
  await holdingDisk(context, listener, held, async () => {
    try {
      noteRestored(await sharedLog.bring(bringing(context, listener)), listener)
      const warehouse = await openWarehouse(openOptions(context))
      await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
    } finally {
      await sharedLog.release()
    }
  })
}
