import { counted, formatCount } from '#src/platform/count.ts'
import type { Manifest } from '../lake/manifest.ts'
import { openTable } from './iceberg/commit.ts'
import { currentSnapshot, SNAPSHOT_PROPERTY, tagOf } from './iceberg/metadata.ts'
import type { ObjectStore } from './objects.ts'
import { type Latest, tableKey } from './publish.ts'

/** One table of the object store, compared with the objects that are there and with the local lake. */
export type Verified = {
  readonly table: string
  readonly files: number
  readonly rows: number
  readonly bytes: number
  /** Sentences; none if everything is as it should be. */
  readonly problems: readonly string[]
}

/**
 * Compares every table with its files, and with the local snapshot of the same name.
 * @param local null if it is gone: then rows are not compared.
 */
export async function verifyRemote(
  store: ObjectStore,
  latest: Latest,
  local: Manifest | null,
): Promise<Verified[]> {
  const verified: Verified[] = []
  for (const name of Object.keys(latest.tables)) {
    verified.push(await verifyTable(store, { name, latest, local }))
  }
  return verified
}

async function verifyTable(
  store: ObjectStore,
  { name, latest, local }: { name: string; latest: Latest; local: Manifest | null },
): Promise<Verified> {
  const directory = tableKey(latest.company, name)
  const { metadata, entries } = await openTable(store, directory, latest.tables[name] ?? 0)
  const sizes = new Map<string, number>()
  for await (const { key, bytes } of store.list(`${directory}/data/`))
    sizes.set(`${store.root}/${key}`, bytes)
  const rows = entries.reduce((sum, { data_file }) => sum + data_file.record_count, 0)
  const bytes = entries.reduce((sum, { data_file }) => sum + data_file.file_size_in_bytes, 0)
  const problems = entries.flatMap(({ data_file: { file_path, file_size_in_bytes } }) => {
    const size = sizes.get(file_path)
    if (size === undefined) return [`${file_path} is gone.`]
    return size === file_size_in_bytes
      ? []
      : [`${file_path} has ${counted(size, 'byte')} instead of ${formatCount(file_size_in_bytes)}.`]
  })
  const snapshot = currentSnapshot(metadata)
  if (
    latest.snapshot !== null &&
    metadata.refs[tagOf(latest.snapshot)]?.['snapshot-id'] !== snapshot?.['snapshot-id']
  )
    problems.push(
      `Its present snapshot is that of ${snapshot?.summary[SNAPSHOT_PROPERTY]}, not ${latest.snapshot}.`,
    )
  const expected = local && rowsOf(local, name)
  if (expected !== null && expected !== rows)
    problems.push(`It has ${counted(rows, 'row')}; the local snapshot has ${formatCount(expected)}.`)
  return { table: name, files: entries.length, rows, bytes, problems }
}

function rowsOf({ tables, marts }: Manifest, name: string): number {
  const mart = marts?.files.find(({ path }) => path === `marts/${name}.parquet`)
  return tables[name]?.rows ?? mart?.rows ?? 0
}
