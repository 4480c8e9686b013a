import { z } from 'zod'
import type { Commit, ReadParquet } from '../format.ts'
import { COUNT, type JsonKind, readJson } from '../json_object.ts'
import { ForeignObject, type ObjectStore, RemoteError } from '../objects.ts'
import type { Action } from './actions.ts'
import { ADDED, type Added, MAX_LOG_BYTES } from './log_lines.ts'
import { checkpointPath, hintPath } from './paths.ts'

/** Checkpoints of a Delta table's log: the state after all commits so far, so that readers need not read each one. */

/** In commits. */
export const CHECKPOINT_EVERY = 10

const OPTIONS = 'MAP(VARCHAR, VARCHAR)'
/** DuckDB's types for the actions in a checkpoint. */
const COLUMNS = {
  protocol:
    'STRUCT("minReaderVersion" INTEGER, "minWriterVersion" INTEGER, "readerFeatures" VARCHAR[], "writerFeatures" VARCHAR[])',
  metaData: `STRUCT(id VARCHAR, "name" VARCHAR, description VARCHAR, format STRUCT(provider VARCHAR, options ${OPTIONS}),
    "schemaString" VARCHAR, "partitionColumns" VARCHAR[], "configuration" ${OPTIONS}, "createdTime" BIGINT)`,
  add: `STRUCT(path VARCHAR, "partitionValues" ${OPTIONS}, size BIGINT, "modificationTime" BIGINT, "dataChange" BOOLEAN, stats VARCHAR)`,
  remove: 'STRUCT(path VARCHAR, "deletionTimestamp" BIGINT, "dataChange" BOOLEAN)',
}

/** Writes a checkpoint of a table. @param actions the state of the table at this version. */
export async function writeCheckpoint(
  store: ObjectStore,
  directory: string,
  version: number,
  { actions, parquetOf }: { readonly actions: readonly Action[]; readonly parquetOf: Commit['parquetOf'] },
): Promise<void> {
  // In a checkpoint, files are not a change.
  const rows = actions.map(({ add, ...others }) => ({
    ...others,
    ...(add ? { add: { ...add, dataChange: false } } : {}),
  }))
  await store.put(checkpointPath(directory, version), await parquetOf(COLUMNS, rows))
  await store.put(hintPath(directory), Buffer.from(JSON.stringify({ version, size: rows.length })))
}

const HINT: JsonKind<{ version: number }> = {
  name: 'pointer to a checkpoint',
  mostBytes: 64 * 1024,
  shape: z.object({ version: COUNT }),
}

/**
 * Returns the newest checkpoint, or null.
 * @throws RemoteError if it is missing. @throws ForeignObject if this program did not write it.
 */
export async function readDeltaCheckpoint(
  store: ObjectStore,
  directory: string,
  parquet: ReadParquet,
): Promise<{ readonly version: number; readonly adds: readonly Added[] } | null> {
  const hint = await readJson(store, hintPath(directory), HINT)
  if (hint === null) return null
  const { version } = hint.value
  const path = checkpointPath(directory, version)
  const found = await store.get(path, MAX_LOG_BYTES)
  if (found === null) throw new RemoteError(`${store.root}/${path} is missing: another program removed it.`)
  const sql = 'SELECT add.path AS path, add.size AS size, add.stats AS stats FROM file WHERE add IS NOT NULL'
  const rows = await parquet(found.bytes, sql).catch(() => null)
  const adds = z.array(ADDED).safeParse(rows)
  if (adds.success) return { version, adds: adds.data }
  throw new ForeignObject(`${store.root}/${path}`, 'is no checkpoint of this table')
}
