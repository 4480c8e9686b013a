import { createReadStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import { makePrivateDirectory, restrictFile } from '#src/platform/access.ts'
import { runConcurrently } from '#src/platform/concurrency.ts'
import {
  dropPath,
  move,
  newStream,
  remove,
  syncDirectory,
  syncPath,
  writeNew,
} from '#src/platform/durable.ts'
import { hashOf } from '#src/platform/hash.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import { writeBase } from '../rawlog/files.ts'
import type { ObjectStore } from '../remote/objects.ts'
import { Database } from '../warehouse/database.ts'
import { rowDirectory, rowPath } from '../warehouse/row_list.ts'
import { schemaHash } from '../warehouse/schema.ts'
import { type Checkpoint, factsOf, fileKey, listCheckpoints, readCheckpoint } from './checkpoints.ts'
import { hashOfSegment } from './segments.ts'

const COPIED_AT_ONCE = 8

/**
 * Brings the newest usable checkpoint to an empty disk. A checkpoint that is damaged, incomplete, of another log or of
 * other tables is passed over.
 * @returns the last segment that it has; 0 if no checkpoint can be used: then the log restores everything.
 * @throws RemoteError if the store refuses.
 */
export async function restoreCheckpoint(
  { store, paths }: { readonly store: ObjectStore; readonly paths: CompanyPaths },
  sourceTimezone: string,
): Promise<number> {
  const { company } = paths
  const hash = schemaHash(sourceTimezone)
  for (const { key } of await listCheckpoints(store, company)) {
    const checkpoint = await readCheckpoint(store, key)
    if (checkpoint?.schema_hash !== hash || checkpoint.company !== company) continue
    const { segment, segment_sha256 } = checkpoint
    if ((await hashOfSegment(store, company, segment)) !== segment_sha256) continue
    if (await copyCheckpoint(store, paths, checkpoint)) return segment
  }
  return 0
}

/** False if it is not usable; then nothing of it remains. */
async function copyCheckpoint(
  store: ObjectStore,
  paths: CompanyPaths,
  checkpoint: Checkpoint,
): Promise<boolean> {
  const temporary = join(paths.temporary, 'restored')
  await remove('temporary.remove', temporary)
  const directory = rowDirectory(join(temporary, 'rows'), checkpoint.warehouse_id)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const packed = join(temporary, 'warehouse.zst')
  try {
    if (!(await copyFiles(store, paths, checkpoint, { packed, directory }))) return false
    if (!(await unpack(paths.nextWarehouse, packed, checkpoint))) return false
    await place(paths, checkpoint, directory)
    return true
  } finally {
    await dropPath(paths.nextWarehouse)
    await remove('temporary.remove', temporary)
  }
}

async function copyFiles(
  store: ObjectStore,
  { company }: CompanyPaths,
  { warehouse, rows }: Checkpoint,
  { packed, directory }: { readonly packed: string; readonly directory: string },
): Promise<boolean> {
  const wanted = [
    { path: packed, ...warehouse },
    ...rows.map(row => ({ path: rowPath(directory, row), ...row })),
  ]
  for (const { path } of wanted) await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  let isWhole = true
  await runConcurrently(COPIED_AT_ONCE, async stopped => {
    for (let next = wanted.shift(); next !== undefined && isWhole && !stopped(); next = wanted.shift()) {
      const found = await store.get(fileKey(company, next.sha256))
      isWhole &&= found?.bytes.length === next.bytes && hashOf(found.bytes) === next.sha256
      if (!isWhole || found === null) return
      await writeNew(next.path, found.bytes)
      await syncPath(next.path)
    }
  })
  return isWhole
}

/** Unpacks the warehouse, and opens it: what it says of itself must be what the checkpoint says. */
async function unpack(path: string, packed: string, checkpoint: Checkpoint): Promise<boolean> {
  const { segment, warehouse_id, schema_hash, rows, warehouse } = checkpoint
  try {
    await pipeline(
      createReadStream(packed),
      createZstdDecompress(),
      upTo(warehouse.unpacked_bytes),
      newStream(path),
    )
    await syncPath(path)
    restrictFile(path)
    const db = await Database.open(path, { readOnly: true, threads: 1 })
    const facts = await factsOf(db).finally(() => db.close())
    return (
      facts?.segment === segment &&
      facts.warehouse_id === warehouse_id &&
      facts.schema_hash === schema_hash &&
      facts.rows.length === rows.length
    )
  } catch {
    return false
  }
}

/** Fails if more bytes come than were said: a few kilobytes can be unpacked to fill a disk. */
function upTo(bytes: number): Transform {
  let passed = 0
  return new Transform({
    transform(chunk: Buffer, _, done) {
      passed += chunk.length
      done(passed > bytes ? new Error('it is larger than it should be') : null, chunk)
    },
  })
}

/**
 * The rows first and the log's base last: after a crash in between, the next run either has a warehouse with its rows,
 * or rebuilds it from the whole log.
 */
async function place(paths: CompanyPaths, checkpoint: Checkpoint, directory: string): Promise<void> {
  const { nextWarehouse, warehouse, rows, root, raw } = paths
  await makePrivateDirectory(rows)
  const target = rowDirectory(rows, checkpoint.warehouse_id)
  await remove('rows.remove', target)
  await move('restored.rename', directory, target)
  await syncDirectory('restored.directory', rows)
  await move('restored.rename', nextWarehouse, warehouse)
  await syncDirectory('restored.directory', root)
  await writeBase(raw, { segments: checkpoint.segment, bytes: checkpoint.log_bytes })
}
