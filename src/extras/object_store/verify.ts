import { martPath } from '#src/core/lake/export.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { counted, formatCount } from '#src/lib/count.ts'
import type { ObjectStore } from '#src/lib/objects/objects.ts'
import type { Formats, ReadParquet, RemoteFile, TableKeeper } from './tables/format.ts'
import { type Latest, tableKey, tableNames } from './tables/latest.ts'

/** One table of the object store, compared with the objects that are there and with the local lake. */
export type Verified = {
  readonly table: string
  readonly format: TableKeeper
  readonly files: number
  readonly rows: number
  readonly bytes: number
  /** Sentences; empty if nothing is wrong. */
  readonly problems: readonly string[]
}

type VerifyRequest = {
  readonly formats: Formats
  readonly latest: Latest
  /** The local snapshot of the same name, with its marts; null if it is gone: then rows are not compared. */
  readonly local: Manifest | null
  readonly parquet: ReadParquet
}

/** Compares every table with its files, and with the local snapshot of the same name. */
export async function verifyRemote(store: ObjectStore, request: VerifyRequest): Promise<Verified[]> {
  const { formats, latest } = request
  const verified: Verified[] = []
  for (const table of tableNames(latest, formats)) {
    const sizes = await sizesOf(store, tableKey(latest.company, table))
    for (const format of formats.keys())
      verified.push(await verifyTable(store, { ...request, table, format, sizes }))
  }
  return verified
}

/** Sizes of the data files, by their path below the table. */
async function sizesOf(store: ObjectStore, directory: string): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>()
  for await (const { key, bytes } of store.list(`${directory}/data/`))
    sizes.set(key.slice(directory.length + 1), bytes)
  return sizes
}

type One = VerifyRequest & {
  readonly table: string
  readonly format: TableKeeper
  readonly sizes: ReadonlyMap<string, number>
}

async function verifyTable(store: ObjectStore, one: One): Promise<Verified> {
  const { table, format, formats, latest, local, parquet, sizes } = one
  const known = latest[format]?.[table] ?? null
  const opened = await formats.get(format)?.open(table, known)
  const files = (await opened?.read(parquet)) ?? []
  const rows = files.reduce((sum, file) => sum + file.rows, 0)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const problems = files.flatMap(file =>
    problemOf(file, sizes, `${store.root}/${latest.company}/lake/${table}`),
  )
  const expected = local && rowsOf(local, table)
  if (expected !== null && expected !== rows)
    problems.push(`It has ${counted(rows, 'row')}; the local snapshot has ${formatCount(expected)}.`)
  return { table, format, files: files.length, rows, bytes, problems }
}

function problemOf({ path, bytes }: RemoteFile, sizes: ReadonlyMap<string, number>, place: string): string[] {
  const size = sizes.get(path)
  if (size === undefined) return [`${place}/${path} is gone.`]
  return size === bytes
    ? []
    : [`${place}/${path} has ${counted(size, 'byte')} instead of ${formatCount(bytes)}.`]
}

function rowsOf({ tables, marts }: Manifest, name: string): number | null {
  const mart = marts?.files.find(({ path }) => path === martPath(name))
  return tables[name]?.rows ?? mart?.rows ?? null
}
