import { hostname } from 'node:os'
import type { Retry } from '#src/core/api/client.ts'
import { makeDirectories } from '#src/core/company/company.ts'
import type { Progress, RunContext } from '#src/core/pipeline/run.ts'
import { describeHolder, takeLock } from '#src/lib/lock.ts'

const DEFAULT_WAIT_SECONDS = 600

/** Receives progress and notes: a terminal, or the log. */
export type Listener = {
  progress(progress: Progress): void
  note(text: string): void
  /** A request is sent again; by default, this is a note. */
  retry?(retry: Retry): void
}

/** Who holds, and how long it waits for another. @property leavesDisk brings nothing: this disk has what the store lacks. */
export type Holding = { readonly what: string; readonly waitSeconds?: number; readonly leavesDisk?: boolean }

/** Holds the company on this disk while `work` runs; hosts that share its log continue. */
export async function holdDisk<T>(
  context: Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal'>,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  return await holding({ path: context.paths.lock, name: 'the company' }, context, listener, options, work)
}

/** Holds the company's part of the object store while `work` writes there. Runs may continue. */
export async function holdStore<T>(
  context: Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal'>,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  const held = { path: context.paths.remoteLock, name: 'the object store' }
  return await holding(held, context, listener, options, work)
}

async function holding<T>(
  { path, name }: { path: string; name: string },
  { paths, settings, now, signal }: Pick<RunContext, 'paths' | 'settings' | 'now' | 'signal'>,
  listener: Listener,
  options: Holding,
  work: () => Promise<T>,
): Promise<T> {
  for (const note of await makeDirectories(paths, settings.lake)) listener.note(note)
  const lock = await takeLock(
    path,
    { pid: process.pid, host: hostname(), what: options.what, since: now().toISOString() },
    {
      waitMs: readWaitMs(options),
      signal,
      nowMs: () => performance.now(),
      onWait: holder => listener.note(`Waiting for ${describeHolder(holder)} to release ${name}`),
    },
  )
  try {
    return await work()
  } finally {
    await lock.release()
  }
}

export function readWaitMs({ waitSeconds = DEFAULT_WAIT_SECONDS }: Pick<Holding, 'waitSeconds'>): number {
  return waitSeconds * 1000
}
