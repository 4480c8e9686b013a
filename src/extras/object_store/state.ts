import { readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { LogPosition } from '#src/core/company/state.ts'
import { type Manifest, readLatestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { move, syncDirectory, syncFile, writeNew } from '#src/lib/durable.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Latest } from './tables/format.ts'

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
  const latest = await readLatestName(lake)
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

/** The changes of the lake on this disk that the object store lacks. */
export type RemoteLag = {
  /** The latest snapshot of the lake on this disk; null before the first. */
  readonly local: string | null
  /** A sentence; null if the store has what it should have now. */
  readonly behind: string | null
  /** When the store may get the latest snapshot (LAKE_PUBLISH_INTERVAL); null if it has it, or should have it. */
  readonly due_at: string | null
  /** Why the last publish from this disk failed, and when that was; null if it did not. */
  readonly last_error: { readonly message: string; readonly tried_at: string } | null
}

/** Compares the store with the local lake. @param latest what the store has; null if nothing was published there. */
export async function measureRemoteLag(
  latest: Latest | null,
  { lake, remote }: Pick<CompanyPaths, 'lake' | 'remote'>,
  now: Date,
): Promise<RemoteLag> {
  const local = await readLatestName(lake)
  const state = await readRemoteState(remote)
  const { error = null, tried_at = '' } = state ?? {}
  const lag = { local, last_error: error === null ? null : { message: error, tried_at } }
  const inStep = { ...lag, behind: null, due_at: null }
  if (local === null) return inStep
  const there = latest?.snapshot ?? null
  const pending = latest?.pending ?? null
  const manifest = await readManifest(join(snapshotsDirectory(lake), local))
  if (latest && manifest && hasContent(latest, manifest) && pending === null) return inStep
  if (error === null && pending === null) {
    // Another host published what it has since.
    if (latest && manifest && compareToStore(latest, manifest) === 'after') return inStep
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

/**
 * Returns whether this snapshot was published, or another host's of the same state of the log that they share, or of a later one
 * in which only runs were added.
 */
export function hasContent(latest: Latest, manifest: Manifest): boolean {
  const { snapshot, content, applied_segment = 0 } = latest
  if (snapshot === manifest.snapshot || content === hashTables(manifest)) return true
  return applied_segment > manifest.applied_segment && compareToStore(latest, manifest) === 'same'
}

/** Hashes what the tables of a snapshot follow from, so that two with the same hash have the same rows. */
export function hashTables({
  log,
  run_id,
  applied_segment,
  schema_hash,
  catalog_hash,
  source_timezone,
  marts,
}: Manifest): string {
  return hashContent(
    JSON.stringify([log, run_id, applied_segment, schema_hash, catalog_hash, source_timezone, marts?.day]),
  )
}

/** The remedy if a lake is right, although `explainPublishRefusal` refuses it; without a full stop. */
export const composeRemedy = (company: string) =>
  `If this lake is the right one, publish it once with \`editais lake publish --new-log --company ${company}\``

/**
 * Returns why this lake must not replace what the store has, as a sentence; null if it may. A log that was restored, salvaged or
 * begun again has no order with the one that was published; only people know which one is right.
 */
export function explainPublishRefusal(latest: Latest | null, manifest: Manifest): string | null {
  if (latest === null || latest.published_at === null) return null
  const { company, data_version } = manifest
  const order = compareToStore(latest, manifest)
  if (order === null)
    return `The object store has data of another log of ${company} (${latest.log}, published at ${latest.published_at}); this lake is of the log ${manifest.log}: one of them is new, or was salvaged.`
  if (order !== 'after') return null
  return `The object store has version ${latest.data_version} of ${company}'s data (published at ${latest.published_at}), but this lake has version ${data_version}: this lake is an older copy, its log was restored from a backup, or another worker syncs this company.`
}

/** Compares what the store has with what a lake has; null if they are of two logs. */
function compareToStore(latest: Latest, manifest: Manifest): ReturnType<LogPosition['compare']> {
  const there = LogPosition.of(latest.log, latest.data_version)
  const here = LogPosition.of(manifest.log, manifest.data_version)
  if (there && here) return there.compare(here)
  // Version 0.2.0 did not write the log's name.
  return latest.data_version > manifest.data_version ? 'after' : 'before'
}
