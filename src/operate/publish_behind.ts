import type { PublishedElsewhere, Publishing, PublishOptions } from '#src/core/extra.ts'
import type { Listener } from '#src/core/pipeline/hold.ts'
import { EXTRAS } from '#src/extras.ts'

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
  options: PublishOptions,
): Promise<PublishedElsewhere | null> {
  for (const { publisher } of EXTRAS)
    if (publisher) return await publisher.publish(context, listener, options)
  return null
}
