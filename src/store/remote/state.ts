import { readFile, rename, rm } from 'node:fs/promises'
import { z } from 'zod'
import { writeNew } from '#src/platform/durable.ts'

const state = z.object({
  tried_at: z.string(),
  snapshot: z.string().nullable(),
  published_at: z.string().nullable(),
  pending: z.string().nullable(),
  error: z.string().nullable(),
  behind_since: z.string().nullable(),
  due_at: z.string().nullable(),
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
  /** Time of the first attempt that failed since then; null if it has the latest. */
  readonly behind_since: string | null
  /** When the latest snapshot may be published, because too little time has passed; null if none waits. */
  readonly due_at: string | null
}

/** Null if there is no object store, or the file is not valid. */
export async function readRemoteState(path: string): Promise<RemoteState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Whether the object store may not have a snapshot that it should have now. Each run tries again. */
export async function isRemoteBehind(settings: object | null, path: string, now: Date): Promise<boolean> {
  if (settings === null) return false
  const state = await readRemoteState(path)
  return state?.error !== null || (state.due_at !== null && Date.parse(state.due_at) <= now.getTime())
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
