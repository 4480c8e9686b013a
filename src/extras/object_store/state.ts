import { readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { latestName } from '#src/core/lake/manifest.ts'
import { move, syncDirectory, syncFile, writeNew } from '#src/lib/durable.ts'

const state = z.object({
  tried_at: z.string(),
  snapshot: z.string().nullable(),
  published_at: z.string().nullable(),
  reading: z.string().nullable().default(null),
  pending: z.string().nullable(),
  error: z.string().nullable(),
  behind_since: z.string().nullable(),
  due_at: z.string().nullable(),
})

/** The state of the object store after the last attempt to publish there. */
export type RemoteState = {
  /** Time of that attempt. */
  readonly tried_at: string
  /** The last snapshot that all tables have; null if there is none. */
  readonly snapshot: string | null
  readonly published_at: string | null
  /** The snapshot of an attempt that has not ended: its local files must not be removed. */
  readonly reading: string | null
  /** A snapshot that only some tables may have: its local files must not be removed either. */
  readonly pending: string | null
  /** Why the last attempt failed; null if it succeeded. */
  readonly error: string | null
  /** Time of the first failure since the last success; null if the last attempt succeeded. */
  readonly behind_since: string | null
  /** When a newer snapshot may be published (LAKE_PUBLISH_INTERVAL); null before the first. */
  readonly due_at: string | null
}

/** Returns null if there is no object store, or the file is not valid. */
export async function readRemoteState(path: string): Promise<RemoteState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Lists the local snapshots that must stay, because they are being published to the object store. */
export async function readRemotely(path: string): Promise<string[]> {
  const { reading = null, pending = null } = (await readRemoteState(path)) ?? {}
  return [reading, pending].filter(name => name !== null)
}

/**
 * Returns whether the object store lacks a snapshot that it should have now. After a failure or an interruption, it is
 * due at once.
 */
export async function isRemoteBehind(
  settings: { readonly intervalMs: number } | null,
  { remote, lake }: Pick<CompanyPaths, 'remote' | 'lake'>,
  now: Date,
): Promise<boolean> {
  if (settings === null) return false
  const latest = await latestName(lake)
  if (latest === null) return false
  const state = await readRemoteState(remote)
  if (state === null || state.error !== null || state.reading !== null) return true
  const sinceMs = now.getTime() - (Date.parse(state.published_at ?? '') || Number.NEGATIVE_INFINITY)
  // A publish in the future: the clock was set back. Waiting for that time would keep the store old.
  return state.snapshot !== latest && (sinceMs < 0 || sinceMs >= settings.intervalMs)
}

/**
 * Writes atomically and durably: a snapshot that the store may have in part must be known after a power failure, too, because its
 * marts, made again, would be other ones.
 */
export async function writeRemoteState(path: string, known: RemoteState): Promise<void> {
  const part = `${path}.part`
  await writeNew(part, `${JSON.stringify(known)}\n`)
  await syncFile('remote.sync', part)
  await move('remote.rename', part, path)
  await syncDirectory('remote.directory', dirname(path))
}

/** Deletes the state, because there is no object store any more. */
export async function forgetRemote({
  remote,
  remoteMarts,
}: Pick<CompanyPaths, 'remote' | 'remoteMarts'>): Promise<void> {
  await rm(remote, { force: true })
  await rm(remoteMarts, { recursive: true, force: true })
}
