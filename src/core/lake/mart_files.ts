import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { MARTS } from '#schema/marts/marts.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { PARQUET_OPTIONS } from '#src/core/warehouse/row_sql.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import { syncDirectory } from '#src/lib/durable.ts'
import { type LakeAccess, openToReaders } from './access.ts'
import { finishFile } from './export.ts'
import type { MartFiles, SnapshotFile } from './manifest.ts'

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
  to: { directory: string; access: LakeAccess; day: string },
): Promise<MartFiles> {
  const { directory, access, day } = to
  await mkdir(join(directory, DIRECTORY), PRIVATE_DIRECTORY)
  const files: SnapshotFile[] = []
  await db.withFile(catalog, async () => {
    for (const { name, orderBy } of MARTS) {
      const path = martPath(name)
      const order = orderBy === undefined ? '' : ` ORDER BY ${identifier(orderBy)}`
      const { count } = await db.row<{ count: number }>(
        `COPY (FROM ${identifier(name)}${order}) TO ${literal(join(directory, path))} (${PARQUET_OPTIONS}, RETURN_STATS)`,
      )
      files.push(await finishFile({ directory, access }, { path, month: null, rows: count }))
    }
  })
  await openToReaders(join(directory, DIRECTORY), access)
  await syncDirectory('parquet.directory', join(directory, DIRECTORY))
  return { day, files }
}
