import { readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { listStoredColumns, type Table } from '#schema/tables.ts'
import { makePrivateDirectory } from '#src/lib/access.ts'
import { pluralize } from '#src/lib/count.ts'
import { remove, syncDirectory, syncFile } from '#src/lib/durable.ts'
import { digestFile } from '#src/lib/hash.ts'
import type { Database } from './database.ts'
import { identifier, literal } from './quoted.ts'
import {
  assignFiles,
  copyRows,
  finishMove,
  MOVED_ROWS,
  type Moved,
  NEWEST_SEGMENT,
  ROW_TABLES,
  type RowFile,
  type RowTable,
  UNSETTLED_MONTHS,
  USED_FILES,
  waitingMonths,
} from './row_sql.ts'
import { names, withoutRows } from './sql.ts'

/** Returns the warehouse's own directory for rows: those of one that is rebuilt must be complete until it is replaced. */
export function rowDirectory(rows: string, warehouseId: string): string {
  return join(rows, warehouseId)
}

export function rowPath(
  directory: string,
  { table_name, file }: Pick<RowFile, 'table_name' | 'file'>,
): string {
  return join(directory, table_name, `${String(file).padStart(6, '0')}.parquet`)
}

/** Returns the files that a warehouse lists. */
export async function listRowFiles(db: Database, catalog = ''): Promise<RowFile[]> {
  return await db.rows<RowFile>(
    `SELECT table_name, file, month, rows, bytes, sha256 FROM ${catalog}row_files ORDER BY table_name, month, file`,
  )
}

/**
 * Returns a query for the rows of one of these tables in a closed warehouse, with its stored columns.
 * @param directory of the warehouse's files.
 */
export function storedRows(table: Table, directory: string, files: readonly RowFile[]): string {
  const columns = listStoredColumns(table)
  const paths = files
    .filter(({ table_name }) => table_name === table.name)
    .map(file => literal(rowPath(directory, file)))
  if (paths.length > 0)
    return `SELECT ${names(columns)} FROM read_parquet([${paths.join(', ')}], hive_partitioning = false)`
  return withoutRows(columns)
}

/**
 * Shows these rows as views in a warehouse that was opened read-only.
 * @param rows the directory with those of all warehouses.
 */
export async function showRows(db: Database, rows: string): Promise<void> {
  const { id } = await db.row<{ id: string }>('SELECT warehouse_id AS id FROM meta')
  const files = await listRowFiles(db)
  for (const table of ROW_TABLES)
    await db.run(
      `CREATE TEMP VIEW ${identifier(table.name)} AS ${storedRows(table, rowDirectory(rows, id), files)}`,
    )
}

type Stored = {
  readonly files: readonly RowFile[]
  readonly newest: number
  readonly settled: number
  readonly lost: number
}

/** The directory of a warehouse's files of rows, and the company that is written into them. */
type RowPlace = { readonly directory: string; readonly company: string }

/**
 * The rows of requirements, items and alerts: nine tenths of all data. They are written once, as the Parquet files that
 * snapshots link, and are not stored in the warehouse. There, `row_places` has the file with the rows of each analysis,
 * and `row_files` lists the files. Rows that are in no file yet wait in temporary tables.
 *
 * A file never changes. A month whose rows changed gets a new one, composed of the old one's rows that still count and
 * of those that wait. Files become durable before the checkpoint of a warehouse that lists them, and are removed after
 * the checkpoint of one that does not.
 */
export class RowFiles {
  readonly directory: string
  readonly #db: Database
  readonly #company: string
  #files: readonly RowFile[]
  #lastFile: number
  /** Up to this segment, the rows of each month are in one file of each table. */
  #settledSegment: number
  /** Whether this was so for all segments when the files were opened: a run that died had more. */
  readonly wereSettled: boolean
  /** Analyses whose rows were waiting when the warehouse was closed. */
  readonly #lost: number
  /** Not durable yet. */
  readonly #written = new Set<number>()

  private constructor(db: Database, place: RowPlace, stored: Stored) {
    this.#db = db
    this.directory = place.directory
    this.#company = place.company
    this.#files = stored.files
    this.#lastFile = Math.max(0, ...stored.files.map(({ file }) => file))
    this.#settledSegment = stored.settled
    this.wereSettled = stored.settled === stored.newest
    this.#lost = stored.lost
  }

  /** Returns the files that the warehouse lists. */
  get files(): readonly RowFile[] {
    return this.#files
  }

  /** Opens the files of a warehouse, and removes what a killed run left beside them. The caller holds the company's lock. */
  static async open(db: Database, place: RowPlace): Promise<RowFiles> {
    const tables = ROW_TABLES.map(({ name }) => join(place.directory, name))
    for (const path of [dirname(place.directory), place.directory, ...tables])
      await makePrivateDirectory(path)
    const at = await db.row<Omit<Stored, 'files'>>(
      `SELECT (${NEWEST_SEGMENT}) AS newest, (SELECT count(*) FROM row_places WHERE file IS NULL) AS lost,
         settled_segment AS settled FROM meta`,
    )
    const rows = new RowFiles(db, place, { ...at, files: await listRowFiles(db) })
    await rows.removeOld()
    return rows
  }

  /** Returns whether all rows are there: each file, with its size. If not, only a rebuild restores them. */
  async areThere(): Promise<boolean> {
    if (this.#lost > 0) return false
    const sizes = this.#files.map(async file => {
      const about = await stat(rowPath(this.directory, file)).catch(() => null)
      return about?.size === file.bytes
    })
    return (await Promise.all(sizes)).every(Boolean)
  }

  /**
   * Writes all rows of months that seem complete, if enough of their rows wait: then `settle` has less to do.
   * @returns these months.
   */
  async writeComplete(enough: number, latest?: number): Promise<string[]> {
    const { complete, freed } = await this.#waiting(latest)
    if (freed < enough) return []
    await this.#write(complete, 'all')
    return complete.map(({ month }) => month)
  }

  /**
   * Writes all rows that wait, and makes the files durable; a month may then have several, until `settle`. To be followed by a
   * checkpoint.
   */
  async save(): Promise<void> {
    const { waiting } = await this.#waiting()
    await this.#write(waiting, 'waiting')
    await this.#syncWritten()
  }

  /**
   * Moves the rows of each month into one file of each table, and makes the files durable. To be followed by a
   * checkpoint, and by `removeOld`.
   */
  async settle(): Promise<void> {
    const { segment } = await this.#db.row<{ segment: number }>(NEWEST_SEGMENT)
    if (segment === this.#settledSegment) return
    const since = this.#settledSegment
    await this.#write(await this.#db.rows<{ month: string }>(UNSETTLED_MONTHS, { since }), 'all')
    await this.#unlist()
    await this.#syncWritten()
    await this.#db.run('UPDATE meta SET settled_segment = $segment', { segment })
    this.#settledSegment = segment
  }

  /** Returns the months with rows that wait, those of them that seem complete, and how many rows of the latter wait. */
  async #waiting(latest?: number) {
    const waiting = await this.#db.rows<{ month: string; rows: number; arriving: boolean }>(
      waitingMonths(latest),
    )
    const complete = waiting.filter(({ arriving }) => !arriving)
    return { waiting, complete, freed: complete.reduce((sum, { rows }) => sum + rows, 0) }
  }

  /** Removes files from the list if none of their rows counts any more. */
  async #unlist(): Promise<void> {
    const used = await this.#db.rows<{ file: number }>(USED_FILES)
    const numbers = new Set(used.map(({ file }) => file))
    const files = this.#files.filter(({ file }) => numbers.has(file))
    if (files.length === this.#files.length) return
    await this.#db.run(`DELETE FROM row_files WHERE file NOT IN (${USED_FILES})`)
    this.#files = files
  }

  /** Makes the files durable that were written since the last time, with their names and those of their directories. */
  async #syncWritten(): Promise<void> {
    if (this.#written.size === 0) return
    for (const file of this.#files)
      if (this.#written.has(file.file)) await syncFile('rows.sync', rowPath(this.directory, file))
    this.#written.clear()
    const tables = ROW_TABLES.map(({ name }) => join(this.directory, name))
    for (const path of [...tables, this.directory, dirname(this.directory)])
      await syncDirectory('rows.directory', path)
  }

  /** Removes files that the warehouse does not list. */
  async removeOld(): Promise<void> {
    const listed = new Set(this.#files.map(file => rowPath(this.directory, file)))
    for (const { name } of ROW_TABLES) {
      const directory = join(this.directory, name)
      for (const file of await readdir(directory)) {
        const path = join(directory, file)
        if (!listed.has(path)) await remove('rows.remove', path)
      }
    }
  }

  /** Writes the rows of each of these months to a new file of each table: those that wait, or all of them. */
  async #write(months: readonly { month: string }[], which: 'waiting' | 'all'): Promise<void> {
    if (months.length === 0) return
    const files = new Map(months.map(({ month }, index) => [this.#lastFile + 1 + index, month]))
    const written: RowFile[] = []
    await this.#db.transaction(async () => {
      await this.#db.run(assignFiles(files, which))
      const moved = await this.#db.rows<Moved>(MOVED_ROWS)
      for (const [file, month] of files) {
        const sources = moved.filter(one => one.file === file)
        for (const table of ROW_TABLES)
          if (sources.some(source => source[table.each] > 0))
            written.push(await this.#writeFile(table, { file, month }, sources))
      }
      for (const sql of finishMove(written, [...files.values()])) await this.#db.run(sql)
    })
    this.#files = [...this.#files, ...written]
    this.#lastFile += months.length
    for (const file of files.keys()) this.#written.add(file)
  }

  /** Writes a file of rows. @throws Error unless it holds exactly the rows that its analyses have. */
  async #writeFile(
    table: RowTable,
    to: { file: number; month: string },
    moved: readonly Moved[],
  ): Promise<RowFile> {
    const about = { ...to, table_name: table.name }
    const path = rowPath(this.directory, about)
    const sources = moved
      .filter(one => one[table.each] > 0)
      .map(({ source }) => ({
        source,
        path: source === null ? null : rowPath(this.directory, { ...about, file: source }),
      }))
    const sql = copyRows(table, { ...to, path, company: this.#company }, sources)
    const { Count: rows } = await this.#db.row<{ Count: number }>(sql)
    const expected = moved.reduce((sum, one) => sum + one[table.each], 0)
    if (rows !== expected)
      throw new Error(`${path}: ${pluralize(rows, 'row')} written, but its analyses have ${expected}`)
    return { ...about, rows, ...(await digestFile(path)) }
  }
}
