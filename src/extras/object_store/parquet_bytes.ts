import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'

/** Small Parquet files from and to memory, through files that DuckDB reads and writes. */

/**
 * Writes rows as Parquet.
 * @param columns DuckDB's types by name.
 * @param rows JSON objects; a column that a row lacks is NULL.
 */
export async function parquetBytes(
  db: Database,
  temporary: string,
  columns: Readonly<Record<string, string>>,
  rows: readonly object[],
): Promise<Buffer> {
  return await inScratch(temporary, async scratch => {
    const [from, to] = [join(scratch, 'rows.json'), join(scratch, 'rows.parquet')]
    await writeFile(from, rows.map(row => `${JSON.stringify(row)}\n`).join(''))
    const types = Object.entries(columns).map(([name, type]) => `${identifier(name)}: ${literal(type)}`)
    await db.run(
      `COPY (FROM read_json(${literal(from)}, format = 'newline_delimited', columns = {${types.join(', ')}}))
       TO ${literal(to)} (FORMAT parquet, COMPRESSION zstd)`,
    )
    return await readFile(to)
  })
}

/** Reads rows from Parquet. @param sql reads the table `file`. */
export async function rowsOfParquet(
  db: Database,
  temporary: string,
  bytes: Buffer,
  sql: string,
): Promise<readonly object[]> {
  return await inScratch(temporary, async scratch => {
    const path = join(scratch, 'file.parquet')
    await writeFile(path, bytes)
    return await db.rows(`WITH file AS (FROM read_parquet(${literal(path)})) ${sql}`)
  })
}

async function inScratch<T>(temporary: string, use: (directory: string) => Promise<T>): Promise<T> {
  await mkdir(temporary, { recursive: true })
  const scratch = await mkdtemp(join(temporary, 'parquet-'))
  try {
    return await use(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}
