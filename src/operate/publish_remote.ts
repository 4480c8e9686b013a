import type { RunContext } from '#src/core/pipeline/run.ts'
import type { RemotePublished } from '#src/extras/object_store/publish.ts'
import { isRemoteBehind } from '#src/extras/object_store/state.ts'
import { holdingStore, type Listener } from './open.ts'

type Publishing = Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal' | 'inStage'>

/**
 * Publishes the latest snapshot to the object store, after a run and without holding the company: the next run
 * may begin.
 * @returns null if nothing is due: there is no object store, or LAKE_PUBLISH_INTERVAL has not passed.
 * @throws RemoteError if the store refuses, and FatalError if another process publishes for too long. What is
 *   missing is remembered: the local lake is correct, and the next attempt publishes it.
 */
export async function publishBehind(
  context: Publishing,
  listener: Listener,
  options: {
    readonly what: string
    readonly waitSeconds?: number
    /** A store that answers nothing for so long is given up. */
    readonly silenceMs?: number
  },
): Promise<RemotePublished | null> {
  const { paths, settings, now, signal } = context
  const { remoteLake } = settings
  const patience = options.silenceMs ? { silenceMs: options.silenceMs } : {}
  const isBehind = () => isRemoteBehind(remoteLake, paths, now())
  if (remoteLake === null || !(await isBehind())) return null
  return await holdingStore(context, listener, options, async () => {
    // The previous holder may have done it.
    if (!(await isBehind())) return null
    // Loaded only if there is an object store, because it loads a client.
    const { publishLatest } = await import('#src/extras/object_store/remote_lake.ts')
    return await context.inStage('upload', () =>
      publishLatest({ settings: remoteLake, paths, now, signal, ...patience }),
    )
  })
}
