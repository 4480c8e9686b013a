import type { RunContext } from '#src/core/pipeline/run.ts'
import { type Salvaged, salvageLog } from '#src/core/rawlog/salvage.ts'
import { remove, syncDirectory } from '#src/lib/durable.ts'
import { EXIT, FatalError, throwIfInterrupted } from '#src/lib/errors.ts'

/**
 * Repairs a damaged log, keeping what can be read. Before the log changes, the warehouse is removed: it was built
 * from the unrepaired log, and the next run or command that opens it rebuilds it. The caller holds the company's lock.
 * @throws FatalError (usage) if hosts share the log.
 */
export async function salvage(context: RunContext): Promise<Salvaged[]> {
  const { paths, runId, now, signal, onProgress, sharedLog } = context
  // What is sealed there never changes, and what is damaged here can be copied again.
  if (sharedLog !== null)
    throw new FatalError(
      `--salvage is for a log on one disk. With LOG_URL, the object store has the whole log: move ${paths.root} away, and \`npm run restore\` brings it back.`,
      EXIT.usage,
    )
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
