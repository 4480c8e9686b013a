import { readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import type { MetabaseTarget } from '#config/settings.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { closing } from '#src/lib/closing.ts'
import { syncPath, writeNew } from '#src/lib/durable.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { readSecretFile } from '#src/lib/http/credentials.ts'

const state = z.object({
  tried_at: z.string(),
  database_id: z.number().nullable(),
  reads: z.array(z.string()),
  catalog_hash: z.string().nullable(),
  error: z.string().nullable(),
})

/** The snapshot that Metabase reads, after the last attempt to point it to the latest one. */
export type MetabaseState = {
  /** Time of that attempt. */
  readonly tried_at: string
  /** Its database that shows the company; null until it is known. */
  readonly database_id: number | null
  /** The catalog that it reads, as far as is known; two if it did not answer the request to switch. */
  readonly reads: readonly string[]
  /** Hash of the views and columns that it knows. */
  readonly catalog_hash: string | null
  /** Why it may still read an older one; null if it reads the latest. */
  readonly error: string | null
}

/** Returns null if Metabase does not follow the company, or the file is not valid. */
export async function readMetabaseState(path: string): Promise<MetabaseState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Snapshots that Metabase may be reading: they must not be removed. */
export function listSnapshotsInUse(known: MetabaseState | null): string[] {
  return (known?.reads ?? []).map(catalog => basename(dirname(catalog)))
}

/** Writes atomically and durably: after a power failure, too, the snapshot that Metabase reads must be known. */
export async function writeMetabaseState(path: string, known: MetabaseState): Promise<void> {
  const part = `${path}.part`
  await writeNew(part, `${JSON.stringify(known)}\n`)
  await syncPath(part)
  await rename(part, path)
  await syncPath(dirname(path))
}

/** Deletes the state: Metabase no longer follows the company. */
export async function forgetMetabase(path: string): Promise<void> {
  await rm(path, { force: true })
}

/** For all calls together: the run that waits for them still holds the company's lock. */
const WITHIN_MS = 30_000

type FollowRequest = {
  readonly target: MetabaseTarget
  readonly company: string
  /** The file that remembers the state. */
  readonly path: string
  readonly manifest: Pick<Manifest, 'directory' | 'catalog_hash'>
  readonly now: Date
  readonly signal: AbortSignal
}

/**
 * Points Metabase's database to the latest snapshot, unless it already reads it, and remembers the outcome.
 * Never throws: data is published even if Metabase is down, slow or rejects the request. The next run tries again.
 */
export async function followSnapshot(request: FollowRequest): Promise<MetabaseState> {
  const { path, now } = request
  const before = await readMetabaseState(path)
  const trial = {
    database_id: before?.database_id ?? null,
    reads: before?.reads ?? [],
    catalog_hash: before?.catalog_hash ?? null,
  }
  const error = await point(request, trial).then(
    () => null,
    reason => (request.signal.aborted ? (before?.error ?? null) : explain(reason).message),
  )
  const state = { tried_at: now.toISOString(), ...trial, error }
  // A full disk is reported elsewhere.
  await writeMetabaseState(path, state).catch(() => {})
  return state
}

type Trial = Pick<
  { -readonly [K in keyof MetabaseState]: MetabaseState[K] },
  'database_id' | 'reads' | 'catalog_hash'
>

/** Keeps in `trial` what is known about Metabase so far, even if it throws. */
async function point(request: FollowRequest, trial: Trial): Promise<void> {
  const { target, company, manifest } = request
  const { url } = target
  if (trial.database_id === null) {
    throw new FatalError('Metabase is not set up for this company yet. Run `editais metabase`.', EXIT.usage)
  }
  // Loaded only now: most commands only read the state, and a client of HTTP takes time to load.
  const { createMetabase } = await import('./client.ts')
  const { pointDatabase } = await import('./database.ts')
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(WITHIN_MS)])
  await using client = closing(createMetabase({ url, signal, apiKey: readKey(target) }))
  const catalogPath = join(manifest.directory, 'catalog.duckdb')
  try {
    await pointDatabase({
      client,
      databaseId: trial.database_id,
      company,
      catalogPath,
      columnsChanged: trial.catalog_hash !== manifest.catalog_hash,
      resources: target,
      onRead: reads => {
        trial.reads = reads
      },
    })
    trial.catalog_hash = manifest.catalog_hash
  } catch (error) {
    if (request.signal.aborted || !signal.aborted) throw error
    throw new FatalError(
      `Metabase at ${url} did not switch to the new snapshot within ${WITHIN_MS / 1000} s. The next run tries again.`,
    )
  }
}

/** Reads the key, again each time, so that it can be replaced without a restart. */
function readKey({ apiKeyFile }: MetabaseTarget): string {
  if (apiKeyFile === null) throw new FatalError('METABASE_API_KEY_FILE is not set.', EXIT.usage)
  const origin = `METABASE_API_KEY_FILE (${apiKeyFile})`
  const key = readSecretFile(apiKeyFile, origin)
  if (key !== '') return key
  throw new FatalError(`${origin} is empty.`, EXIT.usage)
}
