import { z } from 'zod'
import {
  type Bound,
  boundText,
  type ColumnStatistics,
  type Commit,
  DATA_PATH,
  type Expired,
  type Expiry,
  type OpenTable,
  type ReadParquet,
  type RemoteFile,
  type RemoteTable,
  type RemoteType,
  type TableFormat,
  tableKey,
} from '#src/extras/object_store/tables/format.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { deriveUuid, hashContent } from '#src/lib/hash.ts'
import {
  COUNT,
  create,
  ForeignObject,
  type JsonKind,
  type ObjectStore,
  parseJsonObject,
  RemoteError,
  readJson,
} from '#src/lib/objects/objects.ts'

/**
 * A Delta table: the actions of its log, where the log's files are, checkpoints, and the table itself. Names are those of its
 * protocol.
 */

type Add = {
  readonly path: string
  readonly partitionValues: Readonly<Record<string, never>>
  readonly size: number
  readonly modificationTime: number
  readonly dataChange: true
  /** JSON. */
  readonly stats: string
}
type Remove = {
  readonly path: string
  readonly deletionTimestamp: number
  readonly dataChange: true
}
/** The note that identifies a commit as ours. A commit without it comes from another program. */
export type Note = {
  /** The lake's snapshot. */
  readonly snapshot: string
  /** A hash of the columns and their comments. */
  readonly schema: string
  /** All files that the table has with this commit: a publish need not read the whole log. */
  readonly files: readonly string[]
}
type CommitInfo = { readonly inCommitTimestamp: number; readonly userMetadata?: string }
export type Action = {
  readonly commitInfo?: CommitInfo
  readonly protocol?: object
  readonly metaData?: object
  readonly add?: Add
  readonly remove?: Remove
}

const TYPES: Readonly<Record<RemoteType, string>> = {
  VARCHAR: 'string',
  BIGINT: 'long',
  INTEGER: 'integer',
  DOUBLE: 'double',
  BOOLEAN: 'boolean',
  TIMESTAMPTZ: 'timestamp',
  TIMESTAMP: 'timestamp_ntz',
  DATE: 'date',
}
/** How many characters of a text a bound has, as with Delta's own writers. */
const TEXT_CHARACTERS = 32
const DAY_MS = 86_400_000

/** Returns the first action of a commit. Its time is the table's, not the one that the object store gives the file. */
function commitInfo(note: Note, at: Date, isFirst: boolean): Action {
  const info = {
    timestamp: at.getTime(),
    inCommitTimestamp: at.getTime(),
    operation: isFirst ? 'CREATE TABLE AS SELECT' : 'WRITE',
    operationParameters: isFirst ? {} : { mode: 'Overwrite' },
    isBlindAppend: false,
    engineInfo: 'editais-sync',
    userMetadata: JSON.stringify(note),
  }
  return { commitInfo: info }
}

/** Returns the lowest protocol versions that readers and writers need. */
export function protocol({ columns }: RemoteTable): Action {
  const needsLocalTimes = columns.some(({ type }) => type === 'TIMESTAMP')
  return {
    protocol: needsLocalTimes
      ? {
          minReaderVersion: 3,
          minWriterVersion: 7,
          readerFeatures: ['timestampNtz'],
          writerFeatures: ['timestampNtz', 'inCommitTimestamp'],
        }
      : { minReaderVersion: 1, minWriterVersion: 7, writerFeatures: ['inCommitTimestamp'] },
  }
}

/**
 * Makes the action that describes a table.
 * @param location of the table, from which its id derives: two writers give a new table the same id.
 */
export function metaData(table: RemoteTable, location: string, at: Date): Action {
  const fields = table.columns.map(({ name, type, comment }) => ({
    name,
    type: TYPES[type],
    nullable: true,
    metadata: { comment },
  }))
  return {
    metaData: {
      id: deriveUuid(`delta ${location}`),
      name: table.name,
      description: table.comment,
      format: { provider: 'parquet', options: {} },
      schemaString: JSON.stringify({ type: 'struct', fields }),
      partitionColumns: [],
      configuration: {
        'delta.enableInCommitTimestamps': 'true',
        // Clean-ups by other programs would remove files that a kept snapshot names.
        'delta.deletedFileRetentionDuration': 'interval 36500 days',
        'delta.logRetentionDuration': 'interval 36500 days',
      },
      createdTime: at.getTime(),
    },
  }
}

export function hashRemoteSchema({ columns, comment }: RemoteTable): string {
  return hashContent(JSON.stringify([comment, columns])).slice(0, 32)
}

export function add(file: RemoteFile, statistics: readonly ColumnStatistics[], table: RemoteTable): Add {
  return {
    path: file.path,
    partitionValues: {},
    size: file.bytes,
    // Paths have a hash of the content, so the time of a copy means nothing.
    modificationTime: 0,
    dataChange: true,
    stats: composeStats(file.rows, statistics, table),
  }
}

function composeStats(
  rows: number,
  statistics: readonly ColumnStatistics[],
  { columns }: RemoteTable,
): string {
  const known = statistics.map((one, index) => ({ ...one, type: columns[index]?.type as RemoteType }))
  const bounds = (side: 'min' | 'max') =>
    known.flatMap(({ name, type, ...column }) => {
      const bound = column[side]
      const value = bound === null ? null : convertBound(bound, type, side)
      return value === null ? [] : [[name, value]]
    })
  const nulls = known.flatMap(({ name, nulls }) => (nulls === null ? [] : [[name, nulls]]))
  return JSON.stringify({
    numRecords: rows,
    minValues: Object.fromEntries(bounds('min')),
    maxValues: Object.fromEntries(bounds('max')),
    nullCount: Object.fromEntries(nulls),
  })
}

/** Returns null if the protocol or JSON cannot express it. */
function convertBound(bound: Bound, type: RemoteType, side: 'min' | 'max'): string | number | null {
  switch (type) {
    case 'BOOLEAN':
      return null
    case 'VARCHAR':
      return boundText(String(bound), side, TEXT_CHARACTERS)
    case 'INTEGER':
    case 'BIGINT':
      return Number.isSafeInteger(Number(bound)) ? Number(bound) : null
    case 'DOUBLE':
      return Number.isFinite(bound) ? Number(bound) : null
    case 'DATE':
      return new Date(Number(bound) * DAY_MS).toISOString().slice(0, 10)
    case 'TIMESTAMPTZ':
      return milliseconds(BigInt(bound), side)
    case 'TIMESTAMP':
      return milliseconds(BigInt(bound), side).slice(0, -1)
  }
}

/** Converts microseconds, rounded outwards, so that the bounds still contain every value. */
function milliseconds(micros: bigint, side: 'min' | 'max'): string {
  const below = Number(micros / 1000n)
  const floor = micros % 1000n < 0n ? below - 1 : below
  const isExact = micros % 1000n === 0n
  return new Date(side === 'min' || isExact ? floor : floor + 1).toISOString()
}

/** A commit names all files of the table, and its texts are bounded. */
const MAX_LOG_BYTES = 64 * 1024 * 1024

const PATH = z.string().regex(DATA_PATH)
/** Statistics, which are JSON within JSON. */
const STATS = z.string().transform((text, context) => {
  try {
    return z.object({ numRecords: COUNT }).parse(JSON.parse(text)).numRecords
  } catch {
    context.addIssue({ code: 'custom', message: 'no statistics' })
    return z.NEVER
  }
})

/** A file that a commit or a checkpoint adds; its statistics are the number of its rows. */
const ADDED = z.object({ path: PATH, size: COUNT, stats: STATS })
type Added = z.output<typeof ADDED>

const NAME = 'commit of this table'
const NOTE: JsonKind<Note> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ snapshot: z.string(), schema: z.string(), files: z.array(PATH) }),
}
const CHANGE: JsonKind<{ add?: Added | undefined; remove?: { path: string } | undefined }> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ add: ADDED.optional(), remove: z.object({ path: PATH }).optional() }),
}
/** Any program's. */
const INFO: JsonKind<{
  commitInfo?: { inCommitTimestamp?: number | undefined; userMetadata?: string | undefined } | undefined
}> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({
    commitInfo: z
      .object({ inCommitTimestamp: COUNT.optional(), userMetadata: z.string().optional() })
      .optional(),
  }),
}

/** Reads which files a commit adds and removes. @throws ForeignObject if a line is not one of ours. */
function changesIn(bytes: Buffer, address: string) {
  return linesIn(bytes).map(line => parseJsonObject(line, CHANGE, address))
}

/**
 * Returns what identifies a commit, and its time; null if another program made it.
 * @throws ForeignObject if it is no commit, or claims to be ours and is not.
 */
function noteIn(bytes: Buffer, address: string): { readonly note: Note; readonly at: number } | null {
  const infos = linesIn(bytes).map(line => parseJsonObject(line, INFO, address).commitInfo)
  const { inCommitTimestamp: at, userMetadata } = infos.find(info => info !== undefined) ?? {}
  if (at === undefined || !userMetadata?.startsWith('{"snapshot":')) return null
  return { note: parseJsonObject(Buffer.from(userMetadata), NOTE, address), at }
}

function linesIn(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const feed = bytes.indexOf('\n', from)
    const end = feed === -1 ? bytes.length : feed
    if (end > from) lines.push(bytes.subarray(from, end))
    from = end + 1
  }
  return lines
}

/** Returns the directory of a Delta table's log. */
function logDirectory(directory: string): string {
  return `${directory}/_delta_log/`
}

function commitPath(directory: string, version: number): string {
  return `${logDirectory(directory)}${digits(version)}.json`
}

function checkpointPath(directory: string, version: number): string {
  return `${logDirectory(directory)}${digits(version)}.checkpoint.parquet`
}

/** Returns the key of the object that names the newest checkpoint. */
function hintPath(directory: string): string {
  return `${logDirectory(directory)}_last_checkpoint`
}

/** Returns the version of a commit or a checkpoint; null for anything else. */
export function parseVersion(key: string): number | null {
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
  { actions, makeParquet }: { readonly actions: readonly Action[] } & Pick<Commit, 'makeParquet'>,
): Promise<void> {
  // In a checkpoint, files are not a change.
  const rows = actions.map(({ add, ...others }) => ({
    ...others,
    ...(add ? { add: { ...add, dataChange: false } } : {}),
  }))
  await store.put(checkpointPath(directory, version), await makeParquet(COLUMNS, rows))
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
export function createDeltaTables(store: ObjectStore, company: string): TableFormat {
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
  for await (const { key } of store.list(logDirectory(directory)))
    last = Math.max(last ?? 0, parseVersion(key) ?? 0)
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
    ...(await makeAdds(added, wanted)),
  ]
  await createCommit(store, commitPath(directory, version), actions)
  if (version > 0 && version % CHECKPOINT_EVERY === 0)
    await writeCheckpoint(store, directory, version, {
      actions: [...head, ...(await makeAdds(files, wanted))],
      makeParquet: wanted.makeParquet,
    })
  return version
}

async function makeAdds(files: readonly RemoteFile[], { table, readStatistics }: Commit): Promise<Action[]> {
  const adds: Action[] = []
  for (const file of files) adds.push({ add: add(file, await readStatistics(file), table) })
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
  for await (const { key } of store.list(logDirectory(directory))) logs.push(key)
  const commits = await readAll(
    store,
    directory,
    logs.filter(key => key.endsWith('.json')).flatMap(key => parseVersion(key) ?? []),
  )
  const isKept = (_: Base, index: number) => {
    const successor = commits[index + 1]
    return successor === undefined || now.getTime() - successor.at <= keepMs
  }
  const kept = commits.filter(isKept)
  const oldest = kept[0]?.version ?? 0
  const checkpoints = logs
    .filter(key => key.endsWith('.checkpoint.parquet'))
    .map(key => parseVersion(key) ?? 0)
  const from = Math.max(0, ...checkpoints.filter(version => version <= oldest))
  const isNeeded = (key: string) => (parseVersion(key) ?? from) >= from
  const listFiles = (some: readonly Base[]) =>
    some.flatMap(({ note }) => note.files.map(path => `${directory}/${path}`))
  const forgotten = commits.filter(one => !kept.includes(one))
  const named = new Set([hintPath(directory), ...logs.filter(isNeeded), ...listFiles(kept)])
  return {
    version: base?.version ?? null,
    removed: forgotten.filter(({ version }) => version < from).length,
    kept: kept.length,
    isNamed: key => named.has(key),
    superseded: new Set([...logs.filter(key => !isNeeded(key)), ...listFiles(forgotten)]),
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
