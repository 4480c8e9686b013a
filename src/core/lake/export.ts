import { statSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { TABLES, type Table } from '#schema/tables.ts'
import { MAX_ROW_BYTES, textBytes } from '#src/core/warehouse/cut.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import type { RowFiles } from '#src/core/warehouse/row_files.ts'
import { rowPath } from '#src/core/warehouse/row_files.ts'
import { arrivalTable, isRowTable, PARQUET_OPTIONS } from '#src/core/warehouse/row_sql.ts'
import { exportColumns, isInMonths, month } from '#src/core/warehouse/sql.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import { pluralize } from '#src/lib/count.ts'
import { copyNew, linkFile, move, remove, syncDirectory, syncFile } from '#src/lib/durable.ts'
import { findSystemCode } from '#src/lib/errors.ts'
import { digestFile } from '#src/lib/hash.ts'
import { type LakeAccess, openToReaders } from './access.ts'
import type { MartView } from './catalog.ts'
import type { Manifest, MartFiles, SnapshotFile } from './manifest.ts'

/** DuckDB keeps at most 100 partitions open; beyond that it would start a second file for a month. */
const MAX_MONTHS_AT_ONCE = 60
/** Maximum size of texts: DuckDB holds the rows of all partitions that it writes. Beyond it, each month is written alone. */
const MAX_BYTES_AT_ONCE = 64 * 1024 * 1024
/** So few large months are written alone: measuring their texts would take longer. */
const FEW_MONTHS = 3

type Target = { readonly directory: string; readonly company: string; readonly access: LakeAccess }

/** A file that a snapshot can link. */
type Reusable = { readonly directory: string; readonly file: SnapshotFile }

/** A month of a table that was written before the snapshot. A later segment that touches the month makes it useless. */
export type EarlyFile = Reusable & {
  readonly table: string
  /** The last segment whose changes it holds. */
  readonly segment: number
}

/** Which parts of a table must be written, and which files hold the others. */
type TablePlan = {
  readonly table: Table
  /** Months to write; null for a table in a single file. */
  readonly stale: readonly string[] | null
  readonly reused: readonly Reusable[]
}

/** A finished snapshot, and where it is. */
export type Previous = { readonly directory: string; readonly manifest: Manifest }

/**
 * Decides which months of a table must be written, without touching files: those that changed since the previous snapshot, and
 * since they were written early.
 * @param previous null if it cannot be reused: there is none, or it comes from another warehouse.
 */
export function planTable(
  table: Table,
  previous: Previous | null,
  versions: readonly { table_name: string; month: string; version: number }[],
  early: readonly EarlyFile[] = [],
): TablePlan {
  if (table.files === 'one') return { table, stale: null, reused: [] }
  const since = previous?.manifest.applied_segment ?? -1
  const changed = new Map(
    versions
      .filter(version => version.table_name === table.name && version.version > since)
      .map(({ month, version }) => [month, version]),
  )
  const unchanged = (previous?.manifest.tables[table.name]?.files ?? [])
    .filter(({ month }) => month !== null && !changed.has(month))
    .map(file => ({ directory: previous?.directory as string, file }))
  const written = early.filter(
    ({ table: name, file, segment }) =>
      name === table.name && segment >= (changed.get(file.month as string) ?? Number.POSITIVE_INFINITY),
  )
  const reused = new Map([...unchanged, ...written].map(one => [one.file.month, one]))
  const stale = [...changed.keys()].filter(month => !reused.has(month))
  return { table, stale, reused: [...reused.values()] }
}

/**
 * Writes months of all tables whose rows the warehouse stores, for a snapshot that may follow.
 * @param directory a new one gets the files; it may be on another disk than the snapshot.
 */
export async function writeEarly(
  db: Database,
  months: readonly string[],
  { directory, ...to }: Target,
): Promise<EarlyFile[]> {
  const { segment } = await db.row<{ segment: number }>('SELECT applied_segment AS segment FROM meta')
  const target = { ...to, directory: join(directory, String(segment)), rows: Number.POSITIVE_INFINITY }
  const written: EarlyFile[] = []
  for (const table of TABLES.filter(one => one.files === 'by_month' && !isRowTable(one))) {
    await mkdir(join(target.directory, table.name), { mode: PRIVATE_DIRECTORY, recursive: true })
    for (const file of await writeMonths(db, table, months, target))
      written.push({ table: table.name, segment, directory: target.directory, file })
  }
  return written
}

/**
 * Writes the files of one table into the snapshot, and links those that did not change.
 * @param target includes the table's row count.
 * @throws Error if the files do not hold exactly as many rows as the table.
 */
export async function writeTable(
  db: Database,
  plan: TablePlan,
  target: Target & { rows: number },
): Promise<SnapshotFile[]> {
  const { table, stale, reused } = plan
  await mkdir(join(target.directory, table.name), PRIVATE_DIRECTORY)
  const files =
    stale === null ? [await writeWhole(db, table, target)] : await writeMonths(db, table, stale, target)
  for (const { directory, file } of reused) {
    await linkOrCopy([join(directory, file.path)], join(target.directory, file.path), target.access)
    files.push(file)
  }
  return await finishTable(db, table, files, target)
}

/**
 * Links the files of a table whose rows are already in files.
 * @param target includes the table's row count.
 * @throws Error if the files do not hold exactly as many rows as the table.
 */
export async function linkRows(
  db: Database,
  from: { table: Table; rows: Pick<RowFiles, 'directory' | 'files'>; previous: Previous | null },
  target: Target & { rows: number },
): Promise<SnapshotFile[]> {
  const { table, previous } = from
  await mkdir(join(target.directory, table.name), PRIVATE_DIRECTORY)
  const files: SnapshotFile[] = []
  for (const file of from.rows.files.filter(({ table_name }) => table_name === table.name)) {
    const { month, rows, bytes, sha256 } = file
    const path = join(table.name, `${month}.parquet`)
    const before = previous?.manifest.tables[table.name]?.files
    const same = before?.find(one => one.path === path && one.sha256 === sha256)
    const published = same && previous ? join(previous.directory, path) : null
    // The lake may be on another disk: then only its own files can be linked.
    const sources = [rowPath(from.rows.directory, file)].concat(
      published !== null && readFileSize(published) === bytes ? [published] : [],
    )
    await linkOrCopy(sources, join(target.directory, path), target.access)
    files.push({ path, month, rows, bytes, sha256 })
  }
  return await finishTable(db, table, files, target)
}

async function finishTable(
  db: Database,
  table: Table,
  files: SnapshotFile[],
  target: Target & { rows: number },
): Promise<SnapshotFile[]> {
  const directory = join(target.directory, table.name)
  // So that a reader of `editais/*.parquet` finds the columns even if there are no rows yet.
  if (files.length === 0) files.push(await writeWhole(db, table, target, 'empty'))
  openToReaders(directory, target.access)
  await syncDirectory('parquet.directory', directory)
  const published = files.reduce((sum, file) => sum + file.rows, 0)
  if (published !== target.rows)
    throw new Error(
      `${table.name}: ${pluralize(target.rows, 'row')} in the warehouse, ${published} in its files`,
    )
  return files.sort((a, b) => a.path.localeCompare(b.path))
}

async function writeWhole(
  db: Database,
  table: Table,
  target: Target & { rows: number },
  name = 'all',
): Promise<SnapshotFile> {
  const path = join(table.name, `${name}.parquet`)
  await db.run(
    `COPY (SELECT ${exportColumns(table, target.company)} FROM ${arrivalTable(table)} t)
     TO ${literal(join(target.directory, path))} (${PARQUET_OPTIONS})`,
  )
  return await finishFile(target, { path, month: null, rows: target.rows })
}

async function writeMonths(
  db: Database,
  table: Table,
  months: readonly string[],
  target: Target & { rows: number },
): Promise<SnapshotFile[]> {
  const files: SnapshotFile[] = []
  const atOnce = await monthsAtOnce(db, table, months, target.rows)
  for (let from = 0; from < months.length; from += atOnce)
    files.push(...(await writePartitions(db, table, months.slice(from, from + atOnce), target)))
  return files
}

async function monthsAtOnce(db: Database, table: Table, months: readonly string[], rows: number) {
  if (months.length < 2) return 1
  const fits = (bytes: number) => bytes <= MAX_BYTES_AT_ONCE
  if (fits(rows * MAX_ROW_BYTES)) return MAX_MONTHS_AT_ONCE
  if (months.length <= FEW_MONTHS) return 1
  // Counting them costs a tenth of measuring their texts.
  const { some } = await db.row<{ some: number }>(`SELECT count(*) AS some ${ofMonths(table, months)}`)
  if (fits(some * MAX_ROW_BYTES)) return MAX_MONTHS_AT_ONCE
  const { bytes } = await db.row<{ bytes: number }>(
    `SELECT (${textBytes(table)})::DOUBLE AS bytes FROM (SELECT t.* ${ofMonths(table, months)})`,
  )
  return fits(bytes) ? MAX_MONTHS_AT_ONCE : 1
}

async function writePartitions(
  db: Database,
  table: Table,
  months: readonly string[],
  target: Target,
): Promise<SnapshotFile[]> {
  const [only, ...others] = months
  if (only === undefined) return []
  if (others.length === 0) return await writeMonth(db, table, only, target)
  const parts = join(target.directory, table.name, 'parts')
  const written = await db.rows<Written>(
    `COPY (SELECT ${exportColumns(table, target.company)}, ${month(rowTime(table))} AS _month ${ofMonths(table, months)})
     TO ${literal(parts)} (${PARQUET_OPTIONS}, PARTITION_BY (_month), FILENAME_PATTERN 'part', RETURN_STATS)`,
  )
  const rows = new Map(written.map(file => [file.filename, file.count]))
  const files: SnapshotFile[] = []
  for (const name of await readdir(parts).catch(() => [] as string[])) {
    const [part, ...others] = await readdir(join(parts, name))
    if (!part || others.length > 0)
      throw new Error(`${table.name}: ${name} was written as ${others.length + 1} files`)
    const path = join(table.name, `${name.replace(/^_month=/, '')}.parquet`)
    await move('parquet.rename', join(parts, name, part), join(target.directory, path))
    const count = rows.get(join(parts, name, part))
    if (count === undefined) throw new Error(`${path}: DuckDB did not report it`)
    files.push(await finishFile(target, { path, month: name.replace(/^_month=/, ''), rows: count }))
  }
  await remove('parquet.remove', parts)
  return files
}

/** Writes one month without partitions, which takes a third of the time of a single one. */
async function writeMonth(
  db: Database,
  table: Table,
  month: string,
  target: Target,
): Promise<SnapshotFile[]> {
  const path = join(table.name, `${month}.parquet`)
  const { count } = await db.row<Written>(
    `COPY (SELECT ${exportColumns(table, target.company)} ${ofMonths(table, [month])})
     TO ${literal(join(target.directory, path))} (${PARQUET_OPTIONS}, RETURN_STATS)`,
  )
  if (count > 0) return [await finishFile(target, { path, month, rows: count })]
  // Its notices moved to other months, or have no rows in this table.
  await remove('parquet.remove', join(target.directory, path))
  return []
}

/** A file reported by `COPY`. */
type Written = { filename: string; count: number }

/** Returns SQL for the time whose month is that of a row `t`: of its notice `e`. */
function rowTime(table: Table): string {
  return table.name === 'editais' ? 't.created_at' : 'e.created_at'
}

function ofMonths(table: Table, months: readonly string[]): string {
  const notice = table.name === 'editais' ? '' : 'JOIN editais e USING (edital_id)'
  return `FROM ${identifier(table.name)} t ${notice} WHERE ${isInMonths(rowTime(table), months)}`
}

/** Makes a file durable and read-only, and computes its checksum. */
async function finishFile(
  { directory, access }: Pick<Target, 'directory' | 'access'>,
  file: Pick<SnapshotFile, 'path' | 'month' | 'rows'>,
): Promise<SnapshotFile> {
  const path = join(directory, file.path)
  openToReaders(path, access)
  await syncFile('parquet.sync', path)
  return { ...file, ...(await digestFile(path)) }
}

/** Returns the size of a file in bytes; null if it is missing. */
export function readFileSize(path: string): number | null {
  try {
    return statSync(path).size
  } catch {
    return null
  }
}

/**
 * Links a file, or copies it.
 * @param from the same file at several places; if none can be linked, the first one is copied.
 */
async function linkOrCopy(from: readonly string[], to: string, access: LakeAccess): Promise<void> {
  for (const path of from) if (await linked(path, to)) return openToReaders(to, access)
  await copyNew(from[0] as string, to)
  openToReaders(to, access)
  await syncFile('parquet.sync', to)
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await linkFile('parquet.link', from, to)
    return true
  } catch (error) {
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP'].includes(findSystemCode(error) ?? '')) throw error
    return false
  }
}

const DIRECTORY = 'marts'

/** Returns the path of a mart's file, relative to the directory that has them. */
export function martPath(name: string): string {
  return join(DIRECTORY, `${name}.parquet`)
}

/**
 * Writes each mart of a snapshot as a Parquet file, for programs that cannot read its catalog.
 * @param to the directory, in which they get their own.
 * @param day the present day in the time zone of the notices, as YYYY-MM-DD: some marts count days from it.
 */
export async function writeMarts(
  db: Database,
  catalog: string,
  marts: readonly Pick<MartView, 'name' | 'orderBy'>[],
  to: { directory: string; access: LakeAccess; day: string },
): Promise<MartFiles> {
  const { directory, access, day } = to
  await mkdir(join(directory, DIRECTORY), PRIVATE_DIRECTORY)
  const files: SnapshotFile[] = []
  await db.withFile(catalog, async () => {
    for (const { name, orderBy } of marts) {
      const path = martPath(name)
      const order = orderBy === undefined ? '' : ` ORDER BY ${identifier(orderBy)}`
      const { count } = await db.row<{ count: number }>(
        `COPY (FROM ${identifier(name)}${order}) TO ${literal(join(directory, path))} (${PARQUET_OPTIONS}, RETURN_STATS)`,
      )
      files.push(await finishFile({ directory, access }, { path, month: null, rows: count }))
    }
  })
  openToReaders(join(directory, DIRECTORY), access)
  await syncDirectory('parquet.directory', join(directory, DIRECTORY))
  return { day, files }
}
