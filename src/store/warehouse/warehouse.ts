import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { version } from '@duckdb/node-api'
import { TABLES } from '#schema/tables.ts'
import { makePrivateDirectory, refuseStrange, restrictFile } from '#src/platform/access.ts'
import { counted } from '#src/platform/count.ts'
import { move, remove, syncDirectory, take } from '#src/platform/durable.ts'
import { EXIT, FatalError, messageOf, throwIfInterrupted } from '#src/platform/errors.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { assertNotCutShort } from '#src/store/rawlog/examine.ts'
import { sealedSegments, segmentPath } from '#src/store/rawlog/files.ts'
import { applySegment, type Projection } from './apply.ts'
import { Database } from './database.ts'
import { createTable, documentType, flatten } from './sql.ts'

/**
 * Raise it with every change to what the same log produces: tables, statements in `apply.ts`, DuckDB. An older version
 * of the program recognises a newer warehouse by it. `test/unit/schema/version.test.ts`
 * fails if it is forgotten for a change of tables or DuckDB; nothing notices a change in `apply.ts`.
 */
export const SCHEMA_VERSION = 3

/** While analyses are fetched, the event loop, compression and the API connections need a core too. */
const LOADING_THREADS = Math.max(1, availableParallelism() - 1)

/** Up to this many, threads wait for each other longer than they work: a fifth of a run's CPU on a busy machine. */
const FEW_NOTICES = 2000

const BOOKKEEPING = [
  `CREATE TABLE meta (schema_version INTEGER, schema_hash VARCHAR, warehouse_id VARCHAR, applied_segment BIGINT, data_version BIGINT,
     refetch_segment BIGINT, refetch_open BOOLEAN, analysis_statuses VARCHAR[], log VARCHAR)`,
  `CREATE TABLE applied_segments (segment BIGINT, lines BIGINT)`,
  `CREATE TABLE month_versions (table_name VARCHAR, month VARCHAR, version BIGINT, PRIMARY KEY (table_name, month))`,
]

export type WarehouseOptions = {
  readonly paths: CompanyPaths
  readonly sourceTimezone: string
  /** A unique name for this warehouse; one rebuilt from the same log gets another name. */
  readonly newId: () => string
  /** Called while segments are applied, before anything else can happen. */
  readonly onApply?: (progress: { reason: 'rebuild' | 'catch_up'; done: number; total: number }) => void
  readonly signal: AbortSignal
}

export type Warehouse = { readonly db: Database; readonly projection: Projection }

/**
 * Opens the company's warehouse as a true projection of its raw log: rebuilds it if the schema changed, and applies
 * sealed segments that an earlier run left unapplied. The caller holds the company's lock.
 * @throws FatalError (newer_schema) if a newer version of the program made it: the two would rebuild it in turns.
 */
export async function openWarehouse(options: WarehouseOptions): Promise<Warehouse> {
  const { paths } = options
  const projection = projectionOf(options)
  await removeNext(paths)
  if (!existsSync(paths.warehouse)) return await rebuildWarehouse(options)
  const db = await openFile(paths)
  try {
    if (!(await hasCurrentSchema(db, options.sourceTimezone))) {
      await refuseNewer(db, paths)
      db.close()
      return await rebuildWarehouse(options)
    }
    await applyMissing(db, options, projection, 'catch_up')
    return { db, projection }
  } catch (error) {
    db.close()
    throw error
  }
}

/** Rebuilds the warehouse from the raw log beside the old one, then replaces the old one. */
export async function rebuildWarehouse(options: WarehouseOptions): Promise<Warehouse> {
  const { paths } = options
  await removeNext(paths)
  await makePrivateDirectory(paths.temporary)
  await buildWarehouse(paths.nextWarehouse, options)
  restrictFile(paths.nextWarehouse)
  await move('rebuilt.rename', paths.nextWarehouse, paths.warehouse)
  await syncDirectory('rebuilt.directory', paths.root)
  return { db: await openFile(paths), projection: projectionOf(options) }
}

/**
 * Builds a warehouse in a new file.
 * @param upTo the last segment to apply.
 */
export async function buildWarehouse(
  path: string,
  options: WarehouseOptions,
  upTo = Number.POSITIVE_INFINITY,
): Promise<void> {
  const db = await Database.openProjection(path, {
    threads: LOADING_THREADS,
    temporaryDirectory: options.paths.temporary,
  })
  try {
    await createWarehouse(db, { sourceTimezone: options.sourceTimezone, id: options.newId() })
    await applyMissing(db, options, projectionOf(options), 'rebuild', upTo)
    await settleWarehouse({ db })
  } finally {
    db.close()
  }
}

function projectionOf({ paths, sourceTimezone }: WarehouseOptions): Projection {
  return { sourceTimezone, temporaryDirectory: paths.temporary }
}

/** The name of the warehouse's log, for the lines of a new run; null before the first run. */
export async function logName({ db }: Pick<Warehouse, 'db'>): Promise<string | null> {
  return (await db.row<{ log: string | null }>('SELECT log FROM meta')).log
}

/** Creates the tables of an empty warehouse. */
export async function createWarehouse(
  db: Database,
  about: { sourceTimezone: string; id: string },
): Promise<void> {
  for (const sql of [...BOOKKEEPING, ...TABLES.flatMap(createTable)]) await db.run(sql)
  await db.run(`INSERT INTO meta VALUES (${SCHEMA_VERSION}, $hash, $id, 0, 0, NULL, false, [], NULL)`, {
    hash: schemaHash(about.sourceTimezone),
    id: about.id,
  })
}

/** Whether the warehouse has the tables that this version of the program would create. */
export async function hasCurrentSchema(db: Database, sourceTimezone: string): Promise<boolean> {
  return (await storedHash(db)) === schemaHash(sourceTimezone)
}

/** @throws FatalError (newer_schema) if a newer version of the program made the warehouse. */
export async function refuseNewer(db: Database, { company, warehouse }: CompanyPaths): Promise<void> {
  const made = await storedVersion(db)
  if (made <= SCHEMA_VERSION) return
  throw new FatalError(
    `${warehouse} was made by a newer version of editais-sync (its tables are version ${made}, this program's are ${SCHEMA_VERSION}). Nothing was changed. Update this installation or stop it. To go back to this version, stop the newer ones and run \`npm run rebuild -- --company ${company}\`.`,
    EXIT.failed,
    { why: 'newer_schema' },
  )
}

/** Makes applied segments durable. Fetching is over, so all cores may be used from here on. */
export async function settleWarehouse({ db }: Pick<Warehouse, 'db'>): Promise<void> {
  const { notices } = await db.row<{ notices: number }>('SELECT count(*) AS notices FROM editais')
  await db.useThreads(notices > FEW_NOTICES ? availableParallelism() : 1)
  await checkpoint(db)
}

async function checkpoint(db: Database): Promise<void> {
  await take('warehouse.checkpoint', { kind: 'commit' }, () => db.run('CHECKPOINT'))
}

async function applyMissing(
  db: Database,
  { paths, signal, onApply }: WarehouseOptions,
  projection: Projection,
  reason: 'rebuild' | 'catch_up',
  upTo = Number.POSITIVE_INFINITY,
): Promise<void> {
  const sealed = await sealedSegments(paths.raw)
  const { applied } = await db.row<{ applied: number }>('SELECT applied_segment AS applied FROM meta')
  if (applied > sealed.length) {
    throw new FatalError(
      `The warehouse was built from ${counted(applied, 'segment')}, but ${paths.raw} holds ${sealed.length}. Restore the missing ones from a backup, or rebuild from what is left with \`npm run rebuild\`.`,
    )
  }
  const missing = sealed.slice(applied, upTo)
  // A killed process may have renamed the last segment without making the name durable. The warehouse must not be more
  // durable than the log.
  if (missing.length > 0) await syncDirectory('segment.directory', paths.raw)
  for (const [done, number] of missing.entries()) {
    throwIfInterrupted(signal)
    onApply?.({ reason, done, total: missing.length })
    const path = segmentPath(paths.raw, number)
    await assertNotCutShort(path)
    await applySegment(db, { number, path }, projection)
  }
  if (missing.length > 0) onApply?.({ reason, done: missing.length, total: missing.length })
  // Make it durable now, so that these segments need not be applied again.
  if (missing.length > 0) await checkpoint(db)
}

/** Removes what a killed rebuild left. */
async function removeNext({ nextWarehouse }: CompanyPaths): Promise<void> {
  for (const path of [nextWarehouse, `${nextWarehouse}.wal`]) await remove('rebuilt.remove', path)
}

async function openFile(paths: CompanyPaths): Promise<Database> {
  for (const path of [paths.warehouse, `${paths.warehouse}.wal`]) refuseStrange(path)
  try {
    return await Database.openProjection(paths.warehouse, {
      threads: LOADING_THREADS,
      temporaryDirectory: paths.temporary,
    })
  } catch (error) {
    if (/Conflicting lock|Could not set lock/.test(messageOf(error))) {
      throw new FatalError(
        `${paths.warehouse} is open in another process. Close it there and run again.`,
        EXIT.held,
      )
    }
    throw new FatalError(
      `${paths.warehouse} cannot be opened: ${messageOf(error)}. If it is damaged, \`npm run rebuild\` recreates it from the raw log, without calling the API.`,
    )
  }
}

/** Null if there are no tables yet, or a version without a hash made them. */
async function storedHash(db: Database): Promise<string | null> {
  return await storedMeta<string>(db, 'schema_hash')
}

/** 0 for a version that did not store one. */
async function storedVersion(db: Database): Promise<number> {
  return (await storedMeta<number>(db, 'schema_version')) ?? 0
}

async function storedMeta<T>(db: Database, column: 'schema_hash' | 'schema_version'): Promise<T | null> {
  try {
    return (await db.row<{ value: T }>(`SELECT ${column} AS value FROM meta`)).value
  } catch (error) {
    if (/^(Catalog|Binder) Error/.test(messageOf(error))) return null
    throw error
  }
}

/** Changes whenever the same log would produce different tables. */
export function schemaHash(sourceTimezone: string): string {
  const flattened = TABLES.filter(table => table.document !== 'kept').map(table =>
    flatten(table, 'lines', sourceTimezone),
  )
  const parts = [
    // Fingerprints use DuckDB's own hash, which may change between versions.
    version(),
    SCHEMA_VERSION,
    BOOKKEEPING,
    TABLES.flatMap(createTable),
    flattened,
    documentType('notice'),
    documentType('analysis'),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}
