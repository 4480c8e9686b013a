import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { MetabaseTarget } from '#config/settings.ts'
import { EXIT, explain, FatalError, messageOf, systemCode } from '#src/errors.ts'
import type { Manifest } from '#src/lake/manifest.ts'
import { createMetabase } from './client.ts'
import { pointDatabase } from './point.ts'
import { type MetabaseState, readMetabaseState, writeMetabaseState } from './state.ts'

export type FollowRequest = {
  readonly target: MetabaseTarget
  /** Where it is remembered. */
  readonly path: string
  readonly manifest: Pick<Manifest, 'directory' | 'catalog_hash'>
  readonly now: Date
  readonly signal: AbortSignal
}

/**
 * Points Metabase's database at the latest snapshot, where it is not already, and remembers how that went.
 * Never throws: that Metabase is down, slow or refuses is no reason for data not to be published; the next
 * run tries again.
 */
export async function followSnapshot(request: FollowRequest): Promise<MetabaseState> {
  const { path, manifest, now } = request
  const before = await readMetabaseState(path)
  const catalog = join(manifest.directory, 'catalog.duckdb')
  const tried_at = now.toISOString()
  const state: MetabaseState = await point(request, catalog, before).then(
    () => ({ tried_at, catalog, catalog_hash: manifest.catalog_hash, error: null }),
    error => ({
      ...{ tried_at, catalog: before?.catalog ?? null, catalog_hash: before?.catalog_hash ?? null },
      error: explain(error).message,
    }),
  )
  // A disk that is full is told elsewhere.
  await writeMetabaseState(path, state).catch(() => {})
  return state
}

async function point(
  { target, manifest, signal }: FollowRequest,
  catalogPath: string,
  before: MetabaseState | null,
): Promise<void> {
  const { url, timeoutMs, databaseId } = target
  if (databaseId === null) {
    throw new FatalError(
      'METABASE_DATABASE_ID is not set. Run `npm run metabase`, which says what it is.',
      EXIT.usage,
    )
  }
  const client = createMetabase({ url, timeoutMs, signal, apiKey: await readKey(target) })
  try {
    const columnsChanged = before?.catalog_hash !== manifest.catalog_hash
    await pointDatabase({ client, databaseId, catalogPath, columnsChanged })
  } finally {
    await client.close()
  }
}

/** Read anew each time, so that it can be replaced without a restart. */
async function readKey({ apiKeyFile }: MetabaseTarget): Promise<string> {
  if (apiKeyFile === null) throw new FatalError('METABASE_API_KEY_FILE is not set.', EXIT.usage)
  const key = await readFile(apiKeyFile, 'utf8').catch(error => {
    const why = systemCode(error) ?? messageOf(error)
    throw new FatalError(`METABASE_API_KEY_FILE (${apiKeyFile}) cannot be read: ${why}.`, EXIT.usage)
  })
  if (key.trim()) return key.trim()
  throw new FatalError(`METABASE_API_KEY_FILE (${apiKeyFile}) is empty.`, EXIT.usage)
}
