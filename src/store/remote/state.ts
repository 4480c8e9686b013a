import { readFile, rename, rm } from 'node:fs/promises'
import { z } from 'zod'
import { writeNew } from '#src/platform/durable.ts'

const state = z.object({
  tried_at: z.string(),
  snapshot: z.string().nullable(),
  published_at: z.string().nullable(),
  pending: z.string().nullable(),
  error: z.string().nullable(),
})

/** What the object store has, after the last attempt to publish there. */
export type RemoteState = {
  /** Time of that attempt. */
  readonly tried_at: string
  /** The last snapshot that all tables have; null if there is none. */
  readonly snapshot: string | null
  readonly published_at: string | null
  /** A snapshot that only some tables may have: its local files must not be removed. */
  readonly pending: string | null
  /** Why it does not have the latest snapshot; null if it has. */
  readonly error: string | null
}

/** Null if there is no object store, or the file is not valid. */
export async function readRemoteState(path: string): Promise<RemoteState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Whether the object store may not have the latest snapshot. Each run tries again. */
export async function isRemoteBehind(settings: object | null, path: string): Promise<boolean> {
  return settings !== null && (await readRemoteState(path))?.error !== null
}

/** Writes atomically, so that the file can be read at any time. */
export async function writeRemoteState(path: string, known: RemoteState): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(known)}\n`)
  await rename(`${path}.part`, path)
}

/** Deletes the state: there is no object store any more. */
export async function forgetRemote(path: string): Promise<void> {
  await rm(path, { force: true })
}
