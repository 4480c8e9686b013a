import { readdir, stat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { Manifest } from '#src/store/lake/manifest.ts'
import { CHANGED_WITHIN_MONTHS } from '../world.ts'

/** What a snapshot wrote, without the files that it shares with the previous one; sizes of whole files, in bytes. */
export type Written = {
  readonly snapshotBytes: number
  /** Of all files that the previous snapshot does not have. */
  readonly bytes: number
  /** Of these: files of a table's month, files of a whole table, catalog and manifest. */
  readonly monthBytes: number
  readonly wholeTableBytes: number
  readonly catalogBytes: number
  readonly monthsWritten: number
}

/** How a snapshot's notices are spread over the months of their `created_at`. */
export type Months = {
  readonly months: number
  readonly notices: number
  /** Notices of the newest months; only these change. */
  readonly newestNotices: number
}

type File = { readonly path: string; readonly bytes: number; readonly inode: string }

const MONTH = /(\d{4}-\d{2})\.parquet$/

/** Compares two snapshots file by file: a shared file has the same inode in both. */
export async function compareSnapshots(before: string, after: string): Promise<Written> {
  const known = new Set((await filesOf(before)).map(({ inode }) => inode))
  const files = await filesOf(after)
  const own = files.filter(({ inode }) => !known.has(inode))
  const catalog = own.filter(({ path }) => dirname(path) === '.')
  const monthly = own.filter(({ path }) => MONTH.test(path))
  const [bytes, catalogBytes, monthBytes] = [sum(own), sum(catalog), sum(monthly)]
  return {
    snapshotBytes: sum(files),
    bytes,
    monthBytes,
    catalogBytes,
    wholeTableBytes: bytes - monthBytes - catalogBytes,
    monthsWritten: new Set(monthly.map(({ path }) => MONTH.exec(path)?.[1])).size,
  }
}

const sum = (files: readonly File[]) => files.reduce((total, { bytes }) => total + bytes, 0)

/** @throws Error if there are no files: then nothing can be compared. */
async function filesOf(directory: string): Promise<File[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter(entry => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  if (paths.length === 0) throw new Error(`No files in ${directory}`)
  return await Promise.all(
    paths.map(async path => {
      const { dev, ino, size } = await stat(path, { bigint: true })
      return { path: relative(directory, path), bytes: Number(size), inode: `${dev}:${ino}` }
    }),
  )
}

/** Expects a snapshot with notices. */
export function monthsOf({ tables }: Pick<Manifest, 'tables'>): Months {
  const files = (tables.editais?.files ?? []).map(({ month, rows }) => ({ month: month ?? '', rows }))
  const newest = files.reduce((latest, { month }) => (month > latest ? month : latest), '')
  const [year, month] = newest.split('-').map(Number) as [number, number]
  const since = new Date(Date.UTC(year, month - CHANGED_WITHIN_MONTHS)).toISOString().slice(0, 7)
  const count = (those: typeof files) => those.reduce((total, { rows }) => total + rows, 0)
  return {
    months: files.length,
    notices: count(files),
    newestNotices: count(files.filter(file => file.month >= since)),
  }
}
