import { createHash, randomBytes } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { version } from '@duckdb/node-api'
import { composeComment, type Portuguese, type PublishedColumn } from '#schema/columns.ts'
import { analyses, listPublishedColumns, snapshotInfo, TABLES, type Table } from '#schema/tables.ts'
import { findPlausibleInstants } from '#schema/times.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { withoutRows } from '#src/core/warehouse/sql.ts'
import { findExcess, LAKE_DIRECTORY } from '#src/lib/access.ts'
import { dropPath, movePath, writeNew } from '#src/lib/durable.ts'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import { digestFile, hashContent } from '#src/lib/hash.ts'
import type { SnapshotFile } from './manifest.ts'

const LOCAL_TIME = 'local_time'

/** A table, or a view beside them, with its published columns. */
export type Relation = {
  readonly name: string
  readonly description: string
  readonly portuguese: Portuguese
  readonly columns: readonly Pick<PublishedColumn, 'name' | 'description' | 'portuguese' | 'unit'>[]
}

/** A mart as a catalog needs it. */
export type MartView = Relation & {
  /** One SELECT over the tables, `snapshot_info` and the marts before it. */
  readonly sql: string
  /**
   * How its rows are ordered in a file; without it, as they come. For a mart that stays equal while notices change: then
   * its file is equal, too, and is not uploaded again.
   */
  readonly orderBy?: string
  /**
   * The columns of tables that its rows follow from. Then they are in the catalog, and are computed only when one of these
   * changes: for what does not depend on the time, and would cost every mart that builds upon it.
   */
  readonly storedFrom?: Readonly<Partial<Record<string, readonly string[]>>>
  /**
   * Whether its rows are in the catalog of a snapshot, computed with the first one of a day, or when the number of analyses passes
   * the next power of 1.1: for what a run hardly changes, and would take long to compute in each.
   */
  readonly storedDaily?: true
}

/** The figures for BI that a catalog shows above the tables. The program passes them in; a catalog works without any. */
export type Marts = {
  /** The SQL of the functions that they use, besides `local_time`. */
  readonly macros: readonly string[]
  /** In the order in which they are created. */
  readonly views: readonly MartView[]
}

/** A snapshot shown by a catalog. */
export type CatalogSource = {
  readonly company: string
  readonly snapshot: string
  readonly publishedAt: string
  readonly sourceTimezone: string
  /** Final and absolute, because views are bound to it when they are created. */
  readonly directory: string
  /** By table. */
  readonly files: ReadonlyMap<string, readonly SnapshotFile[]>
}

/** By stored mart, what its rows follow from, besides what `hashCatalog` covers: hashes of columns, or the day. */
export type StoredInputs = Readonly<Record<string, string>>

/** A published catalog, as recorded in its manifest. `inputs` is what `readStoredInputs` returned when its rows were computed. */
export type CatalogFile = {
  readonly path: string
  readonly sha256: string
  readonly inputs?: StoredInputs | undefined
}

/**
 * Writes a `catalog.duckdb`: views over exactly the files of each table, the marts on top of them, of which some
 * are stored, and all comments. Opened read-only, it presents the snapshot, or those of several companies, as a database.
 * @param db any database; it is unchanged afterwards.
 * @param like a catalog with the same `hashCatalog`, or a template. Its marts are copied, at a tenth of the cost; with
 * the rows of those that follow from the same `inputs`.
 */
export async function writeCatalog(
  db: Database,
  path: string,
  sources: readonly CatalogSource[],
  marts: Marts,
  { like = null, inputs }: { like?: CatalogFile | null; inputs?: StoredInputs } = {},
): Promise<void> {
  const copied = like !== null && (await copyCatalog(like, path))
  // One commit; otherwise each of some hundred comments would be its own.
  await db.inFile(path, async () => {
    // Of several companies, all items would be compared each time.
    const dailyAs = sources.length === 1 ? 'TABLE' : 'VIEW'
    if (!copied) return await createRelations(db, sources, marts, { dailyAs })
    await createTableRelations(db, sources)
    const outdated = storedViews(marts).filter(
      ({ name }) => inputs?.[name] === undefined || like.inputs?.[name] !== inputs[name],
    )
    await createMarts(db, outdated, 'TABLE')
  })
}

type Template = { readonly sourceTimezone: string; readonly marts: Marts }

/** Writes what all catalogs of a time zone have in common: the marts, over tables without rows or files. */
async function writeTemplate(db: Database, path: string, { sourceTimezone, marts }: Template): Promise<void> {
  await db.inFile(path, async () => {
    for (const { name, columns } of [...TABLES.map(publishedTable), snapshotInfo])
      await db.run(`CREATE VIEW ${identifier(name)} AS ${withoutRows(columns)}`)
    await createMacros(db, [{ company: '', sourceTimezone }], marts)
    await createMarts(db, marts.views, 'TABLE')
  })
}

/** Copies a catalog; false if the file is not what was published: otherwise changes by other users would be copied forever. */
async function copyCatalog(from: CatalogFile, path: string): Promise<boolean> {
  const bytes = await readFile(from.path).catch(() => null)
  if (bytes === null || hashContent(bytes) !== from.sha256) return false
  await writeNew(path, bytes)
  return true
}

/** How the tables are shown. */
type Shown = {
  /** Whether tables stay where they are, or their rows are copied. */
  readonly tablesAs?: Kind
  /** What a query selects the published columns of a table from: by default its Parquet files. */
  readonly rowsSource?: (table: Table) => string
  /** Whether marts that are stored daily are computed at once, or when a query reads them. */
  readonly dailyAs?: Kind
}

/** Creates the relations of a catalog and their comments in an empty database, in the caller's transaction. */
export async function createRelations(
  db: Database,
  sources: readonly CatalogSource[],
  marts: Marts,
  shown: Shown = {},
): Promise<void> {
  await createTableRelations(db, sources, shown)
  // One of them reads a table.
  await createMacros(db, sources, marts)
  await createMarts(db, marts.views, shown.dailyAs)
}

/** Computes the marts that are stored from what the tables have now. */
export async function storeMarts(db: Database, marts: Marts): Promise<void> {
  await createMarts(db, storedViews(marts))
}

function storedViews({ views }: Marts): readonly MartView[] {
  return views.filter(({ storedFrom, storedDaily }) => storedFrom || storedDaily)
}

/** Returns what the rows of stored marts follow from in a warehouse. @param day today, in the time zone of the notices. */
export async function readStoredInputs(db: Database, marts: Marts, day: string): Promise<StoredInputs> {
  const inputs = storedViews(marts).map(({ name, storedFrom = {}, storedDaily }) => {
    const hashes = Object.entries(storedFrom).map(([table, columns = []]) => {
      const row = columns.map(column => `${identifier(column)}::VARCHAR`).join(', ')
      return `(SELECT bit_xor(md5_number(to_json([${row}])::VARCHAR)) FROM ${identifier(table)})`
    })
    const parts = storedDaily ? [literal(day), ANALYSES_BY_TENTHS] : hashes
    return `concat_ws(' ', version(), ${parts.join(', ')}) AS ${identifier(name)}`
  })
  return inputs.length === 0 ? {} : await db.row(`SELECT ${inputs.join(', ')}`)
}

/** Grows by one with each power of 1.1. */
const ANALYSES_BY_TENTHS = `(SELECT floor(ln(1 + count(*)) / ln(1.1)) FROM ${identifier(analyses.name)})`

async function createMacros(
  db: Database,
  sources: readonly Pick<CatalogSource, 'company' | 'sourceTimezone'>[],
  { macros }: Marts,
): Promise<void> {
  await db.run(localTime(sources))
  for (const macro of macros) await db.run(macro)
}

async function createMarts(db: Database, chosen: readonly MartView[], dailyAs: Kind = 'VIEW'): Promise<void> {
  for (const view of chosen) {
    const kind = view.storedDaily ? dailyAs : view.storedFrom ? 'TABLE' : 'VIEW'
    await create(db, kind, view, view.sql)
  }
}

function publishedTable(table: Table) {
  return { ...table, columns: listPublishedColumns(table) }
}

/** Creates the relations that differ between snapshots: where their files are. */
export async function createTableRelations(
  db: Database,
  sources: readonly CatalogSource[],
  { tablesAs = 'VIEW', rowsSource = table => parquetRows(table, sources) }: Shown = {},
): Promise<void> {
  for (const table of TABLES.map(publishedTable)) {
    const list = table.columns.map(({ name }) => identifier(name))
    const sql = `SELECT ${list.join(', ')} FROM ${rowsSource(table)}`
    await create(db, tablesAs, table, sql).catch(error => {
      if (!getMessage(error).startsWith('Binder Error')) throw error
      throw earlierVersion(sources)
    })
  }
  await create(db, tablesAs, snapshotInfo, snapshotRows(sources))
}

function earlierVersion(sources: readonly CatalogSource[]): FatalError {
  const companies = sources.map(({ company }) => company).join(', ')
  return new FatalError(
    `The latest snapshots (${companies}) were written by an earlier version and lack columns. Run \`editais publish --company <company>\` for each.`,
  )
}

/** Covers everything that shapes a catalog besides its files. If it differs, a new snapshot is written. */
export function hashCatalog(sourceTimezone: string, { macros, views }: Marts): string {
  const relations = [...TABLES.map(publishedTable), snapshotInfo, ...views]
  const parts = [
    localTime([{ company: '', sourceTimezone }]),
    ...macros,
    filesPlace(''),
    relations.map(relation => comments(relation, 'VIEW')),
    ...views.map(({ name, sql, storedFrom, storedDaily }) => [name, sql, Boolean(storedFrom), storedDaily]),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** A reader sets it to the place of a snapshot that was moved, copied or mounted elsewhere. */
export const PLACE_VARIABLE = 'editais_snapshot'

/** Returns SQL for the rows of a table; none from a snapshot of an earlier version, which did not have it. */
function parquetRows({ name, columns }: Table, sources: readonly CatalogSource[]): string {
  const place = sources.length === 1 ? filesPlace : literal
  const paths = sources.flatMap(({ directory, files }) =>
    (files.get(name) ?? []).map(file => `${place(directory)} || ${literal(`/${file.path}`)}`),
  )
  if (paths.length === 0) return `(${withoutRows(columns)})`
  // Otherwise a directory `name=value` in the path would become a column. Snapshots of different companies may have
  // different schema versions.
  const options = ['hive_partitioning = false', ...(sources.length > 1 ? ['union_by_name = true'] : [])]
  return `read_parquet([${paths.join(', ')}], ${options.join(', ')})`
}

/** Returns SQL for the place of the files. Not a macro: DuckDB 1.1 does not find it if the catalog is attached elsewhere. */
function filesPlace(directory: string): string {
  return `coalesce(getvariable(${literal(PLACE_VARIABLE)}), ${literal(directory)})`
}

function snapshotRows(sources: readonly CatalogSource[]): string {
  const rows = sources.map(({ company, snapshot, publishedAt, sourceTimezone }) => {
    const values = [company, snapshot, publishedAt, sourceTimezone].map(literal)
    return `(${values.join(', ')})`
  })
  return `SELECT company, snapshot, published_at::TIMESTAMPTZ AS published_at, source_timezone
    FROM (VALUES ${rows.join(', ')}) AS s(company, snapshot, published_at, source_timezone)`
}

/**
 * Returns the macro that marts use for local times; NULL if a time is implausible (`schema/times.ts`). Time zones are constants
 * in it: reading one from a column costs six times as much.
 */
function localTime(sources: readonly Pick<CatalogSource, 'company' | 'sourceTimezone'>[]): string {
  const zones = Map.groupBy(sources, ({ sourceTimezone }) => sourceTimezone)
  const cases = [...zones].map(([zone, those]) => {
    const companies = those.map(({ company }) => literal(company)).join(', ')
    return `WHEN company IN (${companies}) THEN ${inZone(zone)}`
  })
  const [only] = zones.keys()
  const body = zones.size === 1 ? inZone(only as string) : `CASE ${cases.join(' ')} END`
  return `CREATE MACRO ${LOCAL_TIME}(company, moment) AS ${body}`
}

function inZone(zone: string): string {
  const { from, before } = findPlausibleInstants(zone)
  return `CASE WHEN moment >= TIMESTAMPTZ ${literal(from)} AND moment < TIMESTAMPTZ ${literal(before)} THEN moment AT TIME ZONE ${literal(zone)} END`
}

type Kind = 'VIEW' | 'TABLE'

async function create(db: Database, kind: Kind, relation: Relation, sql: string): Promise<void> {
  await db.run(`CREATE OR REPLACE ${kind} ${identifier(relation.name)} AS ${sql}`)
  // In one call: separate calls would double the cost.
  await db.run(comments(relation, kind).join(';\n'))
}

function comments(relation: Relation, kind: Kind): string[] {
  const name = identifier(relation.name)
  return [
    `COMMENT ON ${kind} ${name} IS ${literal(composeComment(relation))}`,
    ...relation.columns.map(
      column => `COMMENT ON COLUMN ${name}.${identifier(column.name)} IS ${literal(composeComment(column))}`,
    ),
  ]
}

const TEMPLATE_NAME = /^catalog-([0-9a-f]{64})-([0-9a-f]{64})\.duckdb$/

/**
 * Returns a directory for files that can be made again at any time: the one that holds Node's compile cache.
 * @returns null if it is missing, or other users can write to it.
 */
export function cacheDirectory(): string | null {
  const compiled = getCompileCacheDir()
  if (compiled === undefined) return null
  const directory = dirname(compiled)
  const about = lstatSync(directory, { throwIfNoEntry: false })
  if (!about?.isDirectory()) return null
  const isOurs = about.uid === (process.geteuid?.() ?? about.uid)
  return isOurs && findExcess(about.mode, LAKE_DIRECTORY) === 0 ? directory : null
}

/**
 * Returns a catalog of no snapshot, in this user's cache directory. A first publish copies its marts, at a tenth of the cost of
 * creating them. It has no name or path of a company.
 * @param db any database; it is unchanged afterwards.
 * @param hash the `hashCatalog` of this time zone.
 * @returns null if there is no cache directory, or it cannot be used.
 */
export async function findCatalogTemplate(
  db: Database,
  about: Template & { readonly hash: string },
  directory = cacheDirectory(),
): Promise<CatalogFile | null> {
  if (directory === null) return null
  const key = templateKey(about.hash)
  try {
    return (await findTemplate(directory, key)) ?? (await makeTemplate(db, directory, { ...about, key }))
  } catch {
    // A full or read-only disk, for example: the marts are then created without a template.
    return null
  }
}

/** Covers everything that shapes a template. */
function templateKey(catalogHash: string): string {
  const types = TABLES.map(table => [
    table.name,
    listPublishedColumns(table).map(({ name, type }) => [name, type]),
  ])
  return hashContent(JSON.stringify([version(), catalogHash, types]))
}

/** Finds a template. The hash of the content is in the name, so a damaged template is not used. */
async function findTemplate(directory: string, wanted: string): Promise<CatalogFile | null> {
  for (const name of await readdir(directory)) {
    const [, key, sha256] = TEMPLATE_NAME.exec(name) ?? []
    if (key !== wanted || sha256 === undefined) continue
    const path = join(directory, name)
    if ((await digestFile(path)).sha256 === sha256) return { path, sha256 }
    await dropPath(path)
  }
  return null
}

async function makeTemplate(
  db: Database,
  directory: string,
  about: Template & { readonly key: string },
): Promise<CatalogFile> {
  const temporary = join(directory, `catalog-${process.pid}-${randomBytes(6).toString('hex')}.part`)
  try {
    await writeTemplate(db, temporary, about)
    const { sha256 } = await digestFile(temporary)
    const path = join(directory, `catalog-${about.key}-${sha256}.duckdb`)
    await movePath(temporary, path)
    return { path, sha256 }
  } finally {
    await dropPath(temporary)
  }
}
