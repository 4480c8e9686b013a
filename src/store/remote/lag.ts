import { join } from 'node:path'
import type { CompanyPaths } from '../company.ts'
import { latestName, readManifest, snapshotsDirectory } from '../lake/manifest.ts'
import type { Latest } from './latest.ts'
import { readRemoteState } from './state.ts'

/** What the object store lacks of the lake on this disk. */
export type RemoteLag = {
  /** The latest snapshot of the lake on this disk; null if there is none. */
  readonly local: string | null
  /** A sentence; null if the store has what it should have now. */
  readonly behind: string | null
  /** When the store may get the latest snapshot (LAKE_PUBLISH_INTERVAL); null if it has it, or should have it. */
  readonly due_at: string | null
  /** Why the last publish from this disk failed, and when that was; null if it did not. */
  readonly last_error: { readonly message: string; readonly tried_at: string } | null
}

/** @param latest what the store has; null if nothing was published there. */
export async function remoteLag(
  latest: Latest | null,
  { lake, remote }: Pick<CompanyPaths, 'lake' | 'remote'>,
  now: Date,
): Promise<RemoteLag> {
  const local = await latestName(lake)
  const state = await readRemoteState(remote)
  const { error = null, tried_at = '' } = state ?? {}
  const lag = { local, last_error: error === null ? null : { message: error, tried_at } }
  const inStep = { ...lag, behind: null, due_at: null }
  if (local === null) return inStep
  const there = latest?.snapshot ?? null
  const pending = latest?.pending ?? null
  if (there === local && pending === null) return inStep
  if (error === null && pending === null) {
    // Another host published what it has since.
    const manifest = await readManifest(join(snapshotsDirectory(lake), local))
    if (manifest && latest && latest.data_version > manifest.data_version) return inStep
    const { snapshot = null, due_at = null, reading = null } = state ?? {}
    const isWaiting = due_at !== null && Date.parse(due_at) > now.getTime()
    if (isWaiting && reading === null && snapshot === there) return { ...lag, behind: null, due_at }
  }
  const has = pending
    ? `has a publish of ${pending.snapshot} that did not end yet`
    : `has ${there ?? 'no snapshot'}`
  return {
    ...lag,
    behind: `The object store ${has}, and lacks ${local}, the latest snapshot on this disk.`,
    due_at: null,
  }
}
