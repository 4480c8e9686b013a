import { createReadStream, existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import { makePrivateDirectory, restrictFile } from '#src/platform/access.ts'
import { runConcurrently } from '#src/platform/concurrency.ts'
import { move, newStream, remove, syncDirectory, syncPath, writeNew } from '#src/platform/durable.ts'
import { hashOf } from '#src/platform/hash.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { readBase, segmentNumbers, writeBase } from '../rawlog/files.ts'
import type { ObjectStore } from '../remote/objects.ts'
import { rowDirectory, rowPath } from '../warehouse/row_list.ts'
import { schemaHash } from '../warehouse/schema.ts'
import { type Checkpoint, fileKey, listCheckpoints, readCheckpoint } from './checkpoints.ts'
import { hasSegment } from './segments.ts'

const COPIED_AT_ONCE = 8

/** Whether the disk has nothing of the company yet, so that a checkpoint saves it from reading the whole log. */
export async function isEmpty({ raw, warehouse }: CompanyPaths): Promise<boolean> {
  if (existsSync(warehouse)) return false
  return (await readBase(raw)).segments === 0 && (await segmentNumbers(raw)).length === 0
}

/**
 * Brings the newest usable checkpoint to an empty disk. A checkpoint that is damaged, incomplete or of other tables is
 * passed over.
 * @returns the last segment that it has; 0 if there is none: then the log restores everything.
 * @throws RemoteError if the store refuses.
 */
export async function restoreCheckpoint(
  place: { readonly store: ObjectStore; readonly paths: CompanyPaths },
  sourceTimezone: string,
): Promise<number> {
  const { store, paths } = place
  const hash = schemaHash(sourceTimezone)
  for (const { key } of await listCheckpoints(store, paths.company)) {
    const checkpoint = await readCheckpoint(store, key)
    if (checkpoint?.schema_hash !== hash || checkpoint.company !== paths.company) continue
    if (!(await hasSegment(place, checkpoint.segment))) continue
    if (await copyCheckpoint(store, paths, checkpoint)) return checkpoint.segment
  }
  return 0
}

/** False if a file is missing or damaged; then nothing of it remains. */
async function copyCheckpoint(
  store: ObjectStore,
  paths: CompanyPaths,
  checkpoint: Checkpoint,
): Promise<boolean> {
  const temporary = join(paths.temporary, 'restored')
  await remove('temporary.remove', temporary)
  await makePrivateDirectory(paths.temporary)
  const directory = rowDirectory(join(temporary, 'rows'), checkpoint.warehouse_id)
  const packed = join(temporary, 'warehouse.zst')
  const wanted = [
    { path: packed, ...checkpoint.warehouse },
    ...checkpoint.rows.map(row => ({ path: rowPath(directory, row), ...row })),
  ]
  for (const { path } of wanted) await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  let isWhole = true
  await runConcurrently(COPIED_AT_ONCE, async stopped => {
    for (let next = wanted.shift(); next !== undefined && isWhole && !stopped(); next = wanted.shift()) {
      const found = await store.get(fileKey(paths.company, next.sha256))
      if (found === null || hashOf(found.bytes) !== next.sha256) isWhole = false
      else await writeNew(next.path, found.bytes)
      if (isWhole) await syncPath(next.path)
    }
  })
  if (isWhole) await place(paths, checkpoint, { packed, directory })
  await remove('temporary.remove', temporary)
  return isWhole
}

/**
 * The rows first and the log's base last: after a crash in between, the next run either has a warehouse with its rows,
 * or rebuilds it from the whole log.
 */
async function place(
  paths: CompanyPaths,
  checkpoint: Checkpoint,
  { packed, directory }: { packed: string; directory: string },
): Promise<void> {
  const { nextWarehouse, warehouse, rows, root, raw } = paths
  await pipeline(createReadStream(packed), createZstdDecompress(), newStream(nextWarehouse))
  await syncPath(nextWarehouse)
  restrictFile(nextWarehouse)
  await makePrivateDirectory(rows)
  const target = rowDirectory(rows, checkpoint.warehouse_id)
  await remove('rows.remove', target)
  await makePrivateDirectory(directory)
  await move('restored.rename', directory, target)
  await syncDirectory('restored.directory', rows)
  await move('restored.rename', nextWarehouse, warehouse)
  await syncDirectory('restored.directory', root)
  await writeBase(raw, { segments: checkpoint.segment, bytes: checkpoint.log_bytes })
}
