import { existsSync, lstatSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { assertNotCutShort } from '#src/core/rawlog/examine.ts'
import { listSealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import { makePrivateDirectory, refuseStrange, restrictFile } from '#src/lib/access.ts'
import { pluralize } from '#src/lib/count.ts'
import { move, remove, syncDirectory, take } from '#src/lib/durable.ts'
import { EXIT, FatalError, getMessage, throwIfInterrupted } from '#src/lib/errors.ts'
import { applySegment, applySegments } from './apply.ts'
import { Database } from './database.ts'
import type { Projection } from './projection.ts'
import { RowFiles, rowDirectory } from './row_files.ts'
import { listWaitingTables } from './row_sql.ts'
import { createTables, hashSchema, SCHEMA_VERSION } from './schema.ts'
import { type SegmentFile, WHOLE_PARTS } from './staging.ts'

/** While analyses are fetched, the event loop, compression and the API connections need a core too. */
const LOADING_THREADS = Math.max(1, availableParallelism() - 1)

/**
 * Up to this many, threads wait for each other longer than they work: a fifth of a run's CPU on a busy machine. And a
 * checkpoint that compresses takes twice as long, to save a few megabytes.
 */
const FEW_NOTICES = 2000

/** Maximum size of segments that are applied at once, decompressed. A run of an hour may seal one of a few kilobytes. */
const MAX_BYTES_TOGETHER = 64 * 1024 * 1024

/** With a segment being applied, more rows in memory would exceed `MEMORY_LIMIT`, and DuckDB would spill each block to a file of its own. */
const MAX_UNSAVED_BYTES = 128 * 1024 * 1024

export type WarehouseOptions = {
  readonly paths: CompanyPaths
  readonly sourceTimezone: string
  /** Returns a unique name for this warehouse; one rebuilt from the same log gets another name. */
  readonly newId: () => string
  /** Called while segments are applied, before anything else can happen. */
  readonly onApply?: (progress: { reason: 'rebuild' | 'catch_up'; done: number; total: number }) => void
  readonly signal: AbortSignal
  /** Called before a rebuild, which needs all segments on this disk. */
  readonly bringWholeLog?: () => Promise<void>
  /** Replaces `MAX_UNSAVED_BYTES`, for tests with few rows. */
  readonly unsavedBytes?: number | undefined
}

export type Warehouse = {
  readonly db: Database
  readonly rows: RowFiles
  readonly projection: Projection
}

/**
 * Opens the company's warehouse as a true projection of its raw log: rebuilds it if the schema changed, and applies
 * sealed segments that an earlier run left unapplied. The caller holds the company's lock.
 * @throws FatalError (newer_schema) if a newer version of the program made it: the two would rebuild it in turns.
 */
export async function openWarehouse(options: WarehouseOptions): Promise<Warehouse> {
  const { paths } = options
  const projection = makeProjection(options)
  refuseOtherPlace(paths)
  await removeNext(paths)
  if (!existsSync(paths.warehouse)) return await rebuildWarehouse(options)
  const db = await openFile(paths)
  try {
    if (!(await hasCurrentSchema(db, options))) {
      await refuseNewer(db, paths)
      db.close()
      return await rebuildWarehouse(options)
    }
    const warehouse = { db, projection, rows: await openRows(db, paths) }
    if (!(await warehouse.rows.areThere())) {
      db.close()
      return await rebuildWarehouse(options)
    }
    await applyMissing(warehouse, options, 'catch_up')
    return warehouse
  } catch (error) {
    db.close()
    throw error
  }
}

/** Rebuilds the warehouse from the raw log beside the old one, then replaces the old one. */
export async function rebuildWarehouse(options: WarehouseOptions): Promise<Warehouse> {
  const { paths } = options
  refuseOtherPlace(paths)
  await removeNext(paths)
  await options.bringWholeLog?.()
  await makePrivateDirectory(paths.temporary)
  const { id, rows: built } = await buildWarehouse(paths.nextWarehouse, options)
  restrictFile(paths.nextWarehouse)
  await makePrivateDirectory(paths.rows)
  await move('rows.rename', built, rowDirectory(paths.rows, id))
  await syncDirectory('rows.directory', paths.rows)
  await move('rebuilt.rename', paths.nextWarehouse, paths.warehouse)
  await syncDirectory('rebuilt.directory', paths.root)
  await removeNext(paths)
  const db = await openFile(paths)
  return { db, projection: makeProjection(options), rows: await openRows(db, paths) }
}

/**
 * Builds a warehouse in a new file, and the files of its rows beside it.
 * @param upTo the last segment to apply.
 * @returns its name, and the directory of its rows.
 */
export async function buildWarehouse(
  path: string,
  options: WarehouseOptions,
  upTo = Number.POSITIVE_INFINITY,
): Promise<{ id: string; rows: string }> {
  const id = options.newId()
  const directory = rowDirectory(rowsBeside(path), id)
  const db = await Database.openProjection(path, {
    threads: LOADING_THREADS,
    temporaryDirectory: options.paths.temporary,
  })
  try {
    await createWarehouse(db, { ...options, id })
    const rows = await RowFiles.open(db, { directory, company: options.paths.company })
    const warehouse = { db, rows, projection: makeProjection(options) }
    await applyMissing(warehouse, options, 'rebuild', upTo)
    await settleWarehouse(warehouse, durable => durable)
    return { id, rows: directory }
  } finally {
    db.close()
  }
}

function makeProjection({ paths, sourceTimezone }: WarehouseOptions): Projection {
  return { sourceTimezone, temporaryDirectory: paths.temporary }
}

/** Returns the name of the warehouse's log, for the lines of a new run; null before the first run. */
export async function logName({ db }: Pick<Warehouse, 'db'>): Promise<string | null> {
  return (await db.row<{ log: string | null }>('SELECT log FROM meta')).log
}

type SchemaOf = { readonly sourceTimezone: string; readonly paths: Pick<CompanyPaths, 'company'> }

/** Creates the tables of an empty warehouse. */
export async function createWarehouse(db: Database, about: SchemaOf & { id: string }): Promise<void> {
  // In one call: each has a fixed cost.
  await db.run([...createTables(), ...listWaitingTables(), WHOLE_PARTS].join(';\n'))
  await db.run(`INSERT INTO meta VALUES (${SCHEMA_VERSION}, $hash, $id, 0, 0, NULL, false, [], NULL, 0)`, {
    hash: hashSchema(about.sourceTimezone, about.paths.company),
    id: about.id,
  })
}

/** Returns whether the warehouse has the tables that this version of the program would create. */
export async function hasCurrentSchema(db: Database, { sourceTimezone, paths }: SchemaOf): Promise<boolean> {
  return (await storedHash(db)) === hashSchema(sourceTimezone, paths.company)
}

/** Throws FatalError (newer_schema) if a newer version of the program made the warehouse. */
export async function refuseNewer(db: Database, { company, warehouse }: CompanyPaths): Promise<void> {
  const made = await storedVersion(db)
  if (made <= SCHEMA_VERSION) return
  throw new FatalError(
    `${warehouse} was made by a newer version of editais-sync (its tables are version ${made}, this program's are ${SCHEMA_VERSION}). Nothing was changed. Update this installation or stop it. To go back to this version, stop the newer ones and run \`editais rebuild --company ${company}\`.`,
    EXIT.failed,
    { why: 'newer_schema' },
  )
}

/**
 * Makes applied segments durable. Fetching is over, so all cores may be used from here on.
 * @param read reads the warehouse meanwhile, unless it is small. Its argument resolves when all is durable, as when this returns.
 */
export async function settleWarehouse<T>(
  { db, rows }: Pick<Warehouse, 'db' | 'rows'>,
  read: (durable: Promise<void>) => Promise<T>,
): Promise<T> {
  const { notices } = await db.row<{ notices: number }>('SELECT count(*) AS notices FROM editais')
  const areFew = notices <= FEW_NOTICES
  await db.useThreads(areFew ? 1 : availableParallelism())
  if (areFew) await db.storeUncompressed()
  await rows.settle()
  const durable = makeCheckpoint({ db, rows })
  // A failure is thrown where `durable` is awaited; without this, Node would end the process before.
  durable.catch(() => {})
  if (areFew) await durable
  try {
    return await read(durable)
  } finally {
    await durable
  }
}

/**
 * Returns a function that makes everything applied durable in the middle of a run, if its rows take too much memory. A run that
 * dies later keeps it.
 * @param mostBytes of rows in memory, besides what a checkpoint leaves there, such as the list.
 */
export function createRelief(
  { db, rows }: Pick<Warehouse, 'db' | 'rows'>,
  mostBytes = MAX_UNSAVED_BYTES,
): () => Promise<void> {
  let left = 0
  return async () => {
    const bytes = await db.measureRowsInMemory()
    left = Math.min(left, bytes)
    if (bytes - left < mostBytes) return
    await rows.save()
    await makeCheckpoint({ db, rows })
    left = await db.measureRowsInMemory()
  }
}

async function makeCheckpoint({ db, rows }: Pick<Warehouse, 'db' | 'rows'>): Promise<void> {
  await take('warehouse.checkpoint', { kind: 'commit' }, () => db.checkpoint())
  await rows.removeOld()
}

async function applyMissing(
  warehouse: Warehouse,
  { paths, signal, onApply, unsavedBytes }: WarehouseOptions,
  reason: 'rebuild' | 'catch_up',
  upTo = Number.POSITIVE_INFINITY,
): Promise<void> {
  const { db, rows, projection } = warehouse
  const relieve = createRelief(warehouse, unsavedBytes)
  const sealed = await listSealedSegments(paths.raw)
  const { applied } = await db.row<{ applied: number }>('SELECT applied_segment AS applied FROM meta')
  if (applied > sealed.length) {
    throw new FatalError(
      `The warehouse was built from ${pluralize(applied, 'segment')}, but ${paths.raw} holds ${sealed.length}. Restore the missing ones from a backup, or rebuild from what is left with \`editais rebuild\`.`,
    )
  }
  const missing = sealed.slice(applied, upTo)
  // A killed process may have renamed the last segment without making the name durable. The warehouse must not be more
  // durable than the log.
  if (missing.length > 0) await syncDirectory('segment.directory', paths.raw)
  let done = 0
  for await (const segments of together(paths.raw, missing)) {
    throwIfInterrupted(signal)
    onApply?.({ reason, done, total: missing.length })
    if (segments.length === 1 || !(await applySegments(db, segments, projection)))
      for (const segment of segments) await applySegment(db, segment, projection)
    await relieve()
    done += segments.length
  }
  if (missing.length > 0) onApply?.({ reason, done: missing.length, total: missing.length })
  // Make it durable now, so that these segments need not be applied again. A run that died may have left months in several files.
  if (missing.length === 0 && rows.wereSettled) return
  await rows.settle()
  await makeCheckpoint(warehouse)
}

/** Segments to apply at once. The first one names the log, so it comes alone. */
async function* together(raw: string, numbers: readonly number[]): AsyncGenerator<SegmentFile[]> {
  let some: SegmentFile[] = []
  let bytes = 0
  for (const number of numbers) {
    const path = segmentPath(raw, number)
    const mostBytes = await assertNotCutShort(path)
    if (some.length > 0 && (bytes + mostBytes > MAX_BYTES_TOGETHER || some[0]?.number === 1)) {
      yield some
      some = []
      bytes = 0
    }
    some.push({ number, path })
    bytes += mostBytes
  }
  if (some.length > 0) yield some
}

/** Lists the files of the warehouse's rows, and removes those of warehouses that it replaced. */
async function openRows(db: Database, { rows, company }: CompanyPaths): Promise<RowFiles> {
  const { id } = await db.row<{ id: string }>('SELECT warehouse_id AS id FROM meta')
  const opened = await RowFiles.open(db, { directory: rowDirectory(rows, id), company })
  for (const name of await readdir(rows)) if (name !== id) await remove('rows.remove', join(rows, name))
  return opened
}

/**
 * Throws FatalError (usage) if the directory of the rows is not a part of the company's: another one may hold files that are not
 * ours, and a rebuilt warehouse could not move its rows to another disk.
 */
function refuseOtherPlace({ root, rows }: CompanyPaths): void {
  const about = lstatSync(rows, { throwIfNoEntry: false })
  if (!about || (about.isDirectory() && about.dev === statSync(root).dev)) return
  const what = about.isSymbolicLink() ? 'a link' : about.isDirectory() ? 'on another disk' : 'not a directory'
  throw new FatalError(
    `${rows} is ${what}, so it is not used. Remove it: the next run makes it again from the raw log. To use another disk, move all of ${root} there.`,
    EXIT.usage,
  )
}

/** Removes what a killed rebuild left. */
async function removeNext({ nextWarehouse }: CompanyPaths): Promise<void> {
  for (const path of [nextWarehouse, `${nextWarehouse}.wal`, rowsBeside(nextWarehouse)])
    await remove('rebuilt.remove', path)
}

/** Returns where a warehouse that is being built has the files of its rows. */
function rowsBeside(path: string): string {
  return join(dirname(path), 'rows')
}

async function openFile(paths: CompanyPaths): Promise<Database> {
  for (const path of [paths.warehouse, `${paths.warehouse}.wal`]) refuseStrange(path)
  try {
    const db = await Database.openProjection(paths.warehouse, {
      threads: LOADING_THREADS,
      temporaryDirectory: paths.temporary,
    })
    for (const sql of [...listWaitingTables(), WHOLE_PARTS]) await db.run(sql)
    return db
  } catch (error) {
    if (/Conflicting lock|Could not set lock/.test(getMessage(error))) {
      throw new FatalError(
        `${paths.warehouse} is open in another process. Close it there and run again.`,
        EXIT.held,
      )
    }
    throw new FatalError(
      `${paths.warehouse} cannot be opened: ${getMessage(error)}. If it is damaged, \`editais rebuild\` recreates it from the raw log, without calling the API.`,
    )
  }
}

/** Returns null if there are no tables yet, or a version without a hash made them. */
async function storedHash(db: Database): Promise<string | null> {
  return await storedMeta<string>(db, 'schema_hash')
}

/** Reads the version of the tables; 0 for a version of the program that did not store one. */
async function storedVersion(db: Database): Promise<number> {
  return (await storedMeta<number>(db, 'schema_version')) ?? 0
}

async function storedMeta<T>(db: Database, column: 'schema_hash' | 'schema_version'): Promise<T | null> {
  try {
    return (await db.row<{ value: T }>(`SELECT ${column} AS value FROM meta`)).value
  } catch (error) {
    if (/^(Catalog|Binder) Error/.test(getMessage(error))) return null
    throw error
  }
}
