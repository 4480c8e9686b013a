import { openOptions, publishWarehouse, type RunContext } from '#src/pipeline/run.ts'
import { openWarehouse } from '#src/store/warehouse/warehouse.ts'
import { holdingCompany, type Listener } from './open.ts'

/**
 * Brings this host's lake to what the shared log has: the last run may have been on another host. Nothing to do if the
 * log is on this disk alone.
 * @throws FatalError (held) if the company is held for longer than the wait.
 */
export async function bringUpToDate(
  context: RunContext,
  listener: Listener,
  held: { readonly what: string; readonly waitSeconds?: number },
): Promise<void> {
  const { sharedLog } = context
  if (sharedLog === null) return
  await holdingCompany(context, listener, held, async () => {
    const warehouse = await openWarehouse(openOptions(context))
    await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
  })
}
