import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { Database } from '#src/core/warehouse/database.ts'
import type { Checkpoint } from '#src/extras/shared_log/checkpoints.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { S3Server } from '#tools/s3_server.ts'
import { temporaryDirectory } from './project.ts'

/** What somebody with the rights of a worker can put into the bucket of LOG_URL. */

const CHECKPOINT = /\/checkpoints\/\d+-/

/** The key of the newest checkpoint. */
export function checkpointKey({ objects }: S3Server): string {
  const key = [...objects.keys()]
    .filter(name => CHECKPOINT.test(name))
    .sort()
    .at(-1)
  if (key === undefined) throw new Error('there is no checkpoint')
  return key
}

export function checkpointIn(s3: S3Server): Checkpoint {
  return JSON.parse(String(s3.objects.get(checkpointKey(s3))?.bytes)) as Checkpoint
}

/** Where the files of checkpoints are. */
export function fileOf(sha256: string): string {
  return `shared/acme/checkpoints/files/${sha256}`
}

/** Replaces an object, as no conditional write would. */
export function replaceObject(s3: S3Server, key: string, content: string | Buffer): void {
  const bytes = Buffer.from(content)
  s3.objects.set(key, { bytes, tag: `"${hashContent(bytes)}"`, modified: new Date() })
}

/** @param changes of the checkpoint's description. */
export function rewriteCheckpoint(s3: S3Server, changes: Readonly<Record<string, unknown>>): void {
  replaceObject(s3, checkpointKey(s3), JSON.stringify({ ...checkpointIn(s3), ...changes }))
}

/** The packed bytes take the place of the checkpoint's warehouse, and its description fits them. */
export function rewriteWarehouse(s3: S3Server, packed: Buffer, unpacked = packed.length * 20): void {
  const sha256 = hashContent(packed)
  replaceObject(s3, fileOf(sha256), packed)
  rewriteCheckpoint(s3, { warehouse: { sha256, bytes: packed.length, unpacked_bytes: unpacked } })
}

/** Runs SQL in the checkpoint's warehouse, which stays a whole database. */
export async function alterWarehouse(s3: S3Server, sql: string): Promise<void> {
  const path = join(await temporaryDirectory(), 'warehouse.duckdb')
  const packed = s3.objects.get(fileOf(checkpointIn(s3).warehouse.sha256))?.bytes as Buffer
  await writeFile(path, zstdDecompressSync(packed))
  const db = await Database.open(path)
  await db.run(sql)
  await db.run('CHECKPOINT')
  db.close()
  const altered = await readFile(path)
  rewriteWarehouse(s3, zstdCompressSync(altered), altered.length)
  await rm(path)
}
