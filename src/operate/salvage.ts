import type { RunContext } from '#src/pipeline/run.ts'
import { remove, syncDirectory } from '#src/platform/durable.ts'
import { throwIfInterrupted } from '#src/platform/errors.ts'
import { type Salvaged, salvageLog } from '#src/store/rawlog/salvage.ts'

/**
 * Repairs a damaged log, keeping what can be read. Before the log changes, the warehouse is removed: it was built
 * from the unrepaired log, and whoever opens it next rebuilds it. The caller holds the company's lock.
 */
export async function salvage(context: RunContext): Promise<Salvaged[]> {
  const { paths, runId, now, signal, onProgress } = context
  // Everything is read before anything is changed.
  const onSegment = (done: number, total: number) => {
    throwIfInterrupted(signal)
    onProgress({ stage: 'open', done, total, note: 'Read the raw log' })
  }
  const onUnusable = async () => {
    await remove('rebuilt.remove', paths.warehouse)
    await syncDirectory('rebuilt.directory', paths.root)
  }
  return await salvageLog({ directory: paths.raw, runId, now, onSegment, onUnusable })
}
