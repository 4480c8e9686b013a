import { z } from 'zod'
import type {
  Commit,
  Expired,
  Expiry,
  OpenTable,
  ReadParquet,
  RemoteFile,
  TableFormat,
} from '#src/extras/object_store/tables/format.ts'
import { tableKey } from '#src/extras/object_store/tables/latest.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { COUNT, type JsonKind, readJson } from '#src/lib/objects/json_object.ts'
import { create, ForeignObject, type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'
import {
  type Action,
  ADDED,
  type Added,
  add,
  changesIn,
  commitInfo,
  hashRemoteSchema,
  MAX_LOG_BYTES,
  metaData,
  type Note,
  noteIn,
  protocol,
} from './actions.ts'

/** Returns the directory of a Delta table's log. */

function logOf(directory: string): string {
  return `${directory}/_delta_log/`
}

function commitPath(directory: string, version: number): string {
  return `${logOf(directory)}${digits(version)}.json`
}

function checkpointPath(directory: string, version: number): string {
  return `${logOf(directory)}${digits(version)}.checkpoint.parquet`
}

/** Returns the key of the object that names the newest checkpoint. */
function hintPath(directory: string): string {
  return `${logOf(directory)}_last_checkpoint`
}

/** Returns the version of a commit or a checkpoint; null for anything else. */
export function versionOf(key: string): number | null {
  const [, version] = /\/(\d{20})\.(?:json|checkpoint\.parquet)$/.exec(key) ?? []
  return version === undefined ? null : Number(version)
}

function digits(version: number): string {
  return String(version).padStart(20, '0')
}

/** Checkpoints of a Delta table's log: the state after all commits so far, so that readers need not read each one. */

/** In commits. */
const CHECKPOINT_EVERY = 10

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
async function writeCheckpoint(
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
async function readDeltaCheckpoint(
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

/**
 * Creates the format of Delta tables: commit `N` is `_delta_log/<N>.json`, created only if it does not exist, so that only one
 * writer can win. Each of our commits lists all files of the table, so that a publish reads one object.
 */
export function deltaTables(store: ObjectStore, company: string): TableFormat {
  return {
    open: (table, known) => openTable(store, tableKey(company, table), known),
    lastChange: () => 0,
    finish: async () => {},
    close() {},
  }
}

async function openTable(store: ObjectStore, directory: string, known: number | null): Promise<OpenTable> {
  const base = await newestCommit(store, directory, known)
  const files = new Set(base?.note.files)
  return {
    version: base?.version ?? null,
    files,
    commit: wanted => commit(store, directory, base, wanted),
    read: parquet => readLog(store, directory, base?.version ?? null, parquet),
    expire: older => expire(store, directory, base, older),
  }
}

const READS_AT_ONCE = 16

type Base = { readonly version: number; readonly note: Note; readonly at: number }

/** Returns the newest commit, which may be newer than the one that the last complete publish knew. Null if there is none. */
async function newestCommit(
  store: ObjectStore,
  directory: string,
  known: number | null,
): Promise<Base | null> {
  const first = known ?? (await listedVersion(store, directory))
  let newest: Base | null = null
  for (let version = first ?? 0; ; version += 1) {
    const found = await readCommit(store, directory, version)
    if (found === null) break
    newest = found
  }
  if (newest === null && first !== null) throw goneError(store, commitPath(directory, first))
  return newest
}

/** Finds the last version by listing, which is needed only if no `latest.json` knows it. */
async function listedVersion(store: ObjectStore, directory: string): Promise<number | null> {
  let last: number | null = null
  for await (const { key } of store.list(logOf(directory))) last = Math.max(last ?? 0, versionOf(key) ?? 0)
  return last
}

/** Reads a commit; null if there is none. @throws RemoteError if it is not ours. */
async function readCommit(store: ObjectStore, directory: string, version: number): Promise<Base | null> {
  const path = commitPath(directory, version)
  const found = await store.get(path, MAX_LOG_BYTES)
  if (found === null) return null
  const own = noteIn(found.bytes, `${store.root}/${path}`)
  if (own === null)
    throw new RemoteError(
      `Another program committed version ${version} to the Delta table ${store.root}/${directory}. Stop that program, and restore the table to the version before it.`,
    )
  return { version, ...own }
}

async function commit(
  store: ObjectStore,
  directory: string,
  base: Base | null,
  wanted: Commit,
): Promise<number> {
  const { table, files, snapshot, at } = wanted
  const before = new Set(base?.note.files)
  const after = new Set(files.map(({ path }) => path))
  const added = files.filter(({ path }) => !before.has(path))
  const removed = [...before].filter(path => !after.has(path))
  const schema = hashRemoteSchema(table)
  const isSameSchema = schema === base?.note.schema
  if (base !== null && isSameSchema && added.length + removed.length === 0) return base.version
  const version = base === null ? 0 : base.version + 1
  const head = [protocol(table), metaData(table, `${store.root}/${directory}`, at)]
  const actions: Action[] = [
    commitInfo({ snapshot, schema, files: [...after] }, at, base === null),
    ...(isSameSchema ? [] : head),
    ...removed.map(path => ({
      remove: { path, deletionTimestamp: at.getTime(), dataChange: true as const },
    })),
    ...(await addsOf(added, wanted)),
  ]
  await createCommit(store, commitPath(directory, version), actions)
  if (version > 0 && version % CHECKPOINT_EVERY === 0)
    await writeCheckpoint(store, directory, version, {
      actions: [...head, ...(await addsOf(files, wanted))],
      parquetOf: wanted.parquetOf,
    })
  return version
}

async function addsOf(files: readonly RemoteFile[], { table, statisticsOf }: Commit): Promise<Action[]> {
  const adds: Action[] = []
  for (const file of files) adds.push({ add: add(file, await statisticsOf(file), table) })
  return adds
}

async function createCommit(store: ObjectStore, path: string, actions: readonly Action[]): Promise<void> {
  const lines = actions.map(action => `${JSON.stringify(action)}\n`)
  if (await create(store, path, Buffer.from(lines.join('')))) return
  throw new RemoteError(
    `${store.root}/${path} was written by another program meanwhile. The next run publishes.`,
  )
}

/** Reads the files of a version from a checkpoint and the commits after it. */
async function readLog(
  store: ObjectStore,
  directory: string,
  version: number | null,
  parquet: ReadParquet,
): Promise<RemoteFile[]> {
  if (version === null) return []
  const checkpoint = await readDeltaCheckpoint(store, directory, parquet)
  const present = new Map(checkpoint?.adds.map(one => [one.path, one]))
  for (let next = checkpoint === null ? 0 : checkpoint.version + 1; next <= version; next += 1) {
    const path = commitPath(directory, next)
    const found = await store.get(path, MAX_LOG_BYTES)
    if (found === null) throw goneError(store, path)
    for (const { add, remove } of changesIn(found.bytes, `${store.root}/${path}`)) {
      if (remove) present.delete(remove.path)
      if (add) present.set(add.path, add)
    }
  }
  return [...present.values()].map(({ path, size, stats }) => ({ path, rows: stats, bytes: size }))
}

function goneError(store: ObjectStore, path: string): RemoteError {
  return new RemoteError(`${store.root}/${path} is missing: another program removed it.`)
}

/** Forgets a version if a newer one appeared long enough ago; its commit stays if a kept version needs it. */
async function expire(
  store: ObjectStore,
  directory: string,
  base: Base | null,
  { keepMs, now }: Expiry,
): Promise<Expired> {
  const logs: string[] = []
  for await (const { key } of store.list(logOf(directory))) logs.push(key)
  const commits = await readAll(
    store,
    directory,
    logs.filter(key => key.endsWith('.json')).flatMap(key => versionOf(key) ?? []),
  )
  const isKept = (_: Base, index: number) => {
    const successor = commits[index + 1]
    return successor === undefined || now.getTime() - successor.at <= keepMs
  }
  const kept = commits.filter(isKept)
  const oldest = kept[0]?.version ?? 0
  const checkpoints = logs.filter(key => key.endsWith('.checkpoint.parquet')).map(key => versionOf(key) ?? 0)
  const from = Math.max(0, ...checkpoints.filter(version => version <= oldest))
  const isNeeded = (key: string) => (versionOf(key) ?? from) >= from
  const filesOf = (some: readonly Base[]) =>
    some.flatMap(({ note }) => note.files.map(path => `${directory}/${path}`))
  const forgotten = commits.filter(one => !kept.includes(one))
  const named = new Set([hintPath(directory), ...logs.filter(isNeeded), ...filesOf(kept)])
  return {
    version: base?.version ?? null,
    removed: forgotten.filter(({ version }) => version < from).length,
    kept: kept.length,
    isNamed: key => named.has(key),
    superseded: new Set([...logs.filter(key => !isNeeded(key)), ...filesOf(forgotten)]),
  }
}

/** Reads the commits, in the order of their versions. */
async function readAll(store: ObjectStore, directory: string, versions: readonly number[]): Promise<Base[]> {
  const found: Base[] = []
  const waiting = [...versions]
  await runConcurrently(READS_AT_ONCE, async stopped => {
    for (let next = waiting.shift(); next !== undefined && !stopped(); next = waiting.shift()) {
      const commit = await readCommit(store, directory, next)
      if (commit) found.push(commit)
    }
  })
  return found.sort((a, b) => a.version - b.version)
}
