import { createReadStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { writeBase } from '#src/core/rawlog/files.ts'
import { rowDirectory, rowPath } from '#src/core/warehouse/row_files.ts'
import { hashSchema } from '#src/core/warehouse/schema.ts'
import { makePrivateDirectory, restrictFile } from '#src/lib/access.ts'
import { carryOut, startChild } from '#src/lib/child.ts'
import { runConcurrently } from '#src/lib/concurrency.ts'
import { dropPath, move, openNewStream, remove, syncDirectory, syncPath } from '#src/lib/durable.ts'
import { findSystemCode, throwIfInterrupted } from '#src/lib/errors.ts'
import { ForeignObject, type ObjectStore } from '#src/lib/objects/objects.ts'
import { type Checkpoint, DELETE_IT, fileKey, listCheckpoints, readCheckpoint } from './checkpoints.ts'
import type { ForeignWarehouse } from './foreign_warehouse.ts'
import { countBytesUpTo, hashOfSegment } from './segments.ts'

const ADMIT = join(import.meta.dirname, 'foreign_warehouse.ts')
const READING = 'the reading'
const ADMITTED_WITHIN_MS = 1_800_000
const COPIED_AT_ONCE = 8
/** Three are kept. */
const MAX_TRIED = 20
/** Each may take half an hour: a stranger who adds more must not keep this host busy. */
const MAX_REFUSED = 3
/** A warehouse becomes a tenth of its size, an empty one much less. */
const MAX_UNPACKED = { times: 64, bytes: 64 * 1024 ** 2 }

type Restoring = {
  readonly store: ObjectStore
  readonly paths: CompanyPaths
  readonly signal: AbortSignal
  /** Called with a sentence for each checkpoint that cannot be trusted. */
  readonly onRefused: (text: string) => void
}

/**
 * Brings the newest usable checkpoint to an empty disk. A checkpoint that is damaged, incomplete, of another log or of
 * other tables is passed over.
 * @returns the last segment that it has; 0 if no checkpoint can be used: then the log restores everything.
 * @throws RemoteError if the store refuses.
 */
export async function restoreCheckpoint(restoring: Restoring, sourceTimezone: string): Promise<number> {
  const { store, paths, onRefused } = restoring
  const hash = hashSchema(sourceTimezone, paths.company)
  const names = await listCheckpoints(store, paths.company)
  let refused = 0
  for (const name of names.slice(0, MAX_TRIED)) {
    if (refused === MAX_REFUSED) break
    try {
      const checkpoint = await readCheckpoint(store, paths.company, name)
      if (checkpoint?.schema_hash !== hash) continue
      const { segment, segment_sha256 } = checkpoint
      if ((await hashOfSegment(store, paths.company, segment)) !== segment_sha256) continue
      if (await copyCheckpoint(restoring, checkpoint, `${store.root}/${name.key}`)) return segment
    } catch (error) {
      if (!(error instanceof ForeignObject)) throw error
      refused += 1
      onRefused(error.message)
    }
  }
  return 0
}

/**
 * Brings a checkpoint to the disk; false if a file is missing: then nothing of it remains.
 * @param address of the checkpoint.
 * @throws ForeignObject if it is not what this program made.
 */
async function copyCheckpoint(
  restoring: Restoring,
  checkpoint: Checkpoint,
  address: string,
): Promise<boolean> {
  const { store, paths } = restoring
  const temporary = join(paths.temporary, 'restored')
  await remove('temporary.remove', temporary)
  const directory = rowDirectory(join(temporary, 'rows'), checkpoint.warehouse_id)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const packed = join(temporary, 'warehouse.zst')
  try {
    if (!(await copyFiles(store, paths, checkpoint, { packed, directory, address }))) return false
    const foreign = join(temporary, 'foreign.duckdb')
    if (!(await unpack(packed, foreign, checkpoint)))
      throw new ForeignObject(address, 'has a warehouse that cannot be unpacked', DELETE_IT)
    await admit(restoring, checkpoint, { address, foreign, directory, temporary })
    restrictFile(paths.nextWarehouse)
    await syncPath(paths.nextWarehouse)
    await place(store, paths, checkpoint, directory)
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
  to: { readonly packed: string; readonly directory: string; readonly address: string },
): Promise<boolean> {
  const wanted = [
    { path: to.packed, ...warehouse },
    ...rows.map(row => ({ path: rowPath(to.directory, row), ...row })),
  ]
  for (const { path } of wanted) await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  let isWhole = true
  await runConcurrently(COPIED_AT_ONCE, async stopped => {
    for (let next = wanted.shift(); next !== undefined && isWhole && !stopped(); next = wanted.shift()) {
      const { path, bytes, sha256 } = next
      const copied = await store.copy(fileKey(company, sha256), path, bytes)
      isWhole &&= copied !== null
      if (copied === null) return
      if (copied.bytes !== bytes || copied.sha256 !== sha256)
        throw new ForeignObject(
          to.address,
          `has a file with other content (${fileKey(company, sha256)})`,
          DELETE_IT,
        )
      await syncPath(path)
    }
  })
  return isWhole
}

/** Unpacks a file; false if it is not packed, or becomes larger than a warehouse of this size can be. */
async function unpack(packed: string, path: string, { warehouse }: Checkpoint): Promise<boolean> {
  const { bytes, unpacked_bytes } = warehouse
  const most = Math.min(unpacked_bytes, bytes * MAX_UNPACKED.times + MAX_UNPACKED.bytes)
  return await pipeline(
    createReadStream(packed),
    createZstdDecompress(),
    upTo(most),
    openNewStream(path),
  ).then(
    () => true,
    error => {
      if (findSystemCode(error) === 'ENOSPC') throw error
      return false
    },
  )
}

/** Copies the rows of the warehouse into a fresh file. @throws ForeignObject if it has anything but our tables. */
async function admit(
  { paths, signal }: Restoring,
  { segment, warehouse_id, schema_hash, rows }: Checkpoint,
  about: {
    readonly address: string
    readonly foreign: string
    readonly directory: string
    readonly temporary: string
  },
): Promise<void> {
  const { address, foreign: path, directory, temporary } = about
  const order: ForeignWarehouse = {
    path,
    rows: directory,
    fresh: paths.nextWarehouse,
    temporary,
    company: paths.company,
    expected: { segment, warehouse_id, schema_hash, rows },
  }
  await dropPath(paths.nextWarehouse)
  const child = startChild(ADMIT, { stderr: 'ignore' })
  try {
    const limits = { what: READING, withinMs: ADMITTED_WITHIN_MS, signal }
    const { error } = await carryOut(child, order, limits)
    throwIfInterrupted(signal)
    if (error === null) return
    const why = error.startsWith(READING) ? `cannot be read to its end (${error})` : error
    throw new ForeignObject(address, `has a warehouse that ${why}`, DELETE_IT)
  } finally {
    if (child.connected) child.disconnect()
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
 * Puts a checkpoint in place, the rows first and the log's base last: after a crash in between, the next run either has a
 * warehouse with its rows, or rebuilds it from the whole log.
 */
async function place(
  store: ObjectStore,
  paths: CompanyPaths,
  checkpoint: Checkpoint,
  directory: string,
): Promise<void> {
  const { nextWarehouse, warehouse, rows, root, raw } = paths
  const bytes = await countBytesUpTo({ store, paths }, checkpoint.segment)
  await makePrivateDirectory(rows)
  const target = rowDirectory(rows, checkpoint.warehouse_id)
  await remove('rows.remove', target)
  await move('restored.rename', directory, target)
  await syncDirectory('restored.directory', rows)
  await move('restored.rename', nextWarehouse, warehouse)
  await syncDirectory('restored.directory', root)
  await writeBase(raw, { segments: checkpoint.segment, bytes })
}
