import type { Commit, ReadParquet } from '../format.ts'
import { type ObjectStore, RemoteError } from '../objects.ts'
import type { Action, Add } from './actions.ts'
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

/** @param actions the state of the table at this version. */
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

/** The newest checkpoint; null if there is none. */
export async function readCheckpoint(
  store: ObjectStore,
  directory: string,
  parquet: ReadParquet,
): Promise<{ readonly version: number; readonly adds: readonly Add[] } | null> {
  const hint = await store.get(hintPath(directory))
  if (hint === null) return null
  const { version } = JSON.parse(hint.bytes.toString()) as { version: number }
  const path = checkpointPath(directory, version)
  const found = await store.get(path)
  if (found === null) throw new RemoteError(`${store.root}/${path} is missing: another program removed it.`)
  const sql = 'SELECT add.path AS path, add.size AS size, add.stats AS stats FROM file WHERE add IS NOT NULL'
  return { version, adds: (await parquet(found.bytes, sql)) as Add[] }
}
