import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { z } from 'zod'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { readBase, segmentPath } from '#src/core/rawlog/files.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { listRowFiles, rowDirectory, rowPath } from '#src/core/warehouse/row_files.ts'
import { openNewStream } from '#src/lib/durable.ts'
import { digestFile } from '#src/lib/hash.ts'
import {
  COUNT,
  ForeignObject,
  type JsonKind,
  type ObjectStore,
  readJson,
  SHA256,
} from '#src/lib/objects/objects.ts'
import { ownerKey } from './owner.ts'
import { hashOfSegment } from './segments.ts'

/**
 * Copies of a warehouse and of its rows' files in the object store, so that an empty disk need not rebuild them from
 * the whole log. Any of them can be lost: the log has everything.
 */

/** Maximum size of one file, and of all files of a checkpoint: a few kilobytes must not make a host copy without end. */
const MAX_BYTES = { file: 4 * 1024 ** 3, all: 16 * 1024 ** 3 }

const file = z.object({ bytes: COUNT.max(MAX_BYTES.file), sha256: SHA256 })
const checkpointShape = z
  .object({
    format: z.literal(1),
    company: z.string(),
    /** The last segment that the warehouse has. */
    segment: z.number().int().positive().max(999_999_999),
    /** Hash of that segment, which shows whether the checkpoint belongs to the log that is there. */
    segment_sha256: SHA256,
    /** Size of all segments up to that one. Not read: a host counts them. */
    log_bytes: COUNT,
    warehouse_id: z.string().regex(/^[\w-]{1,100}$/),
    schema_hash: SHA256,
    made_at: z.string(),
    /** Compressed. */
    warehouse: file.extend({ unpacked_bytes: COUNT }),
    rows: z.array(
      file.extend({
        table_name: z.enum(['requirements', 'items', 'alerts']),
        file: z.number().int().positive().max(999_999_999),
      }),
    ),
  })
  .refine(({ warehouse, rows }) => {
    return [warehouse, ...rows].reduce((sum, { bytes }) => sum + bytes, 0) <= MAX_BYTES.all
  })

/** The remedy for a checkpoint that is not ours. */
export const DELETE_IT =
  'The checkpoint before it, or the whole log, takes its place. Delete it, and check who can write there'
const CHECKPOINT: JsonKind<Checkpoint> = {
  name: 'checkpoint',
  // A hundred thousand files.
  mostBytes: 16 * 1024 * 1024,
  shape: checkpointShape,
  mend: DELETE_IT,
}

export type Checkpoint = z.output<typeof checkpointShape>
type CheckpointName = { readonly key: string; readonly segment: number; readonly made: Date }

/** A checkpoint is made when so much of the log follows the last one, or when it is so old. */
const DUE = { segments: 50, bytes: 16 * 1024 * 1024, ageMs: 24 * 3_600_000 }
/** The first one is made sooner: there is nothing else to restore from. */
const FIRST_AT_SEGMENTS = 10
const KEPT = 3
/** From the highest segment on, so many checkpoints are read: the first ones may be of another log. */
const MAX_LOOKED_AT = 20
/** A checkpoint that this version cannot read, but perhaps another one. */
const UNREADABLE_KEPT_MS = 7 * 24 * 3_600_000
/** A file that no checkpoint names stays for this long: another worker may be about to name it. */
const GRACE_MS = 24 * 3_600_000
/** The fastest level: a warehouse becomes a tenth of its size at any of them. */
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }

const NAME = /\/(\d{9})-[\w-]+\.json$/

export function checkpointsKey(company: string): string {
  return `${company}/checkpoints`
}

export function fileKey(company: string, sha256: string): string {
  return `${checkpointsKey(company)}/files/${sha256}`
}

/** Lists the checkpoints, newest first. */
export async function listCheckpoints(store: ObjectStore, company: string): Promise<CheckpointName[]> {
  const found: CheckpointName[] = []
  // Digits only, so not the files.
  for await (const { key, modified } of store.list(`${checkpointsKey(company)}/0`)) {
    const segment = Number(NAME.exec(key)?.[1] ?? 0)
    if (segment > 0) found.push({ key, segment, made: modified })
  }
  return found.reverse()
}

/**
 * Returns null if it is missing.
 * @throws ForeignObject if it is not what this program writes under this name.
 */
export async function readCheckpoint(
  store: ObjectStore,
  company: string,
  { key, segment }: Pick<CheckpointName, 'key' | 'segment'>,
): Promise<Checkpoint | null> {
  const checkpoint = (await readJson(store, key, CHECKPOINT))?.value ?? null
  if (checkpoint === null) return null
  if (checkpoint.company !== company || checkpoint.segment !== segment)
    throw new ForeignObject(`${store.root}/${key}`, 'is that of another company or segment', DELETE_IT)
  return checkpoint
}

/** Returns null if it is missing or not ours. */
export async function findUsableCheckpoint(
  store: ObjectStore,
  company: string,
  name: Pick<CheckpointName, 'key' | 'segment'>,
): Promise<Checkpoint | null> {
  return await readCheckpoint(store, company, name).catch(error => {
    if (error instanceof ForeignObject) return null
    throw error
  })
}

/** Returns how many of its files are missing; null if it cannot be read. */
export async function countMissingFiles(
  store: ObjectStore,
  company: string,
  name: CheckpointName,
): Promise<number | null> {
  const checkpoint = await findUsableCheckpoint(store, company, name)
  if (checkpoint === null) return null
  const files = [checkpoint.warehouse, ...checkpoint.rows]
  const found = await Promise.all(files.map(({ sha256 }) => store.head(fileKey(company, sha256))))
  return found.filter(one => one === null).length
}

/** The properties of an open warehouse that a checkpoint needs. */
export type WarehouseFacts = Pick<Checkpoint, 'segment' | 'warehouse_id' | 'schema_hash' | 'rows'>

/** Returns null for a warehouse without data. */
export async function readFacts(db: Database): Promise<WarehouseFacts | null> {
  const meta = await db.row<Omit<WarehouseFacts, 'rows'>>(
    'SELECT applied_segment::INTEGER AS segment, warehouse_id, schema_hash FROM meta',
  )
  if (meta.segment === 0) return null
  const rows = (await listRowFiles(db)).map(({ table_name, file, bytes, sha256 }) => ({
    ...{ table_name: table_name as Checkpoint['rows'][number]['table_name'] },
    ...{ file, bytes, sha256 },
  }))
  return { ...meta, rows }
}

/**
 * Makes a checkpoint if one is due, and removes those that are no longer kept.
 * @param facts of the warehouse, which is closed and stays so. The caller holds the company's lock.
 * @throws RemoteError if the store refuses; the next run makes it.
 */
export async function checkpointIfDue(
  { store, paths }: { readonly store: ObjectStore; readonly paths: CompanyPaths },
  facts: WarehouseFacts,
  now: Date,
): Promise<void> {
  const { company } = paths
  const storeNow = await timeThere(store, company, now)
  const last = await lastUsable(store, company, facts)
  if (last !== null && last.segment >= facts.segment) return
  if (!(await isDue(paths.raw, facts.segment, last, storeNow))) return
  const segment_sha256 = await hashOfSegment(store, company, facts.segment)
  if (segment_sha256 === null) return
  const warehouse = await uploadWarehouse(store, paths)
  await uploadRows(store, paths, facts)
  const checkpoint: Checkpoint = {
    ...{ format: 1, company, warehouse, made_at: now.toISOString() },
    log_bytes: await logBytes(paths.raw, facts.segment),
    segment_sha256,
    ...facts,
  }
  const name = `${String(facts.segment).padStart(9, '0')}-${facts.warehouse_id}.json`
  const key = `${checkpointsKey(company)}/${name}`
  await store.put(key, Buffer.from(`${JSON.stringify(checkpoint)}\n`))
  await removeOld(store, company, storeNow)
}

/** Returns the time by the store's clock: the owner renewed its object a moment ago. */
async function timeThere(store: ObjectStore, company: string, otherwise: Date): Promise<Date> {
  for await (const { modified } of store.list(ownerKey(company))) return modified
  return otherwise
}

/**
 * Returns the newest checkpoint of this log and of this version's tables: it delays the next one. Its files are not looked up
 * after each run: the next one uploads what is missing.
 */
async function lastUsable(
  store: ObjectStore,
  company: string,
  { schema_hash }: WarehouseFacts,
): Promise<CheckpointName | null> {
  for (const name of (await listCheckpoints(store, company)).slice(0, MAX_LOOKED_AT)) {
    const checkpoint = await findUsableCheckpoint(store, company, name)
    if (checkpoint === null || !(await isOfThisLog(store, checkpoint))) continue
    return checkpoint.schema_hash === schema_hash ? name : null
  }
  return null
}

/** Returns false if the log was replaced by a backup or a new one: a later segment number then says nothing. */
async function isOfThisLog(store: ObjectStore, checkpoint: Checkpoint): Promise<boolean> {
  const { company, segment, segment_sha256 } = checkpoint
  return (await hashOfSegment(store, company, segment)) === segment_sha256
}

async function isDue(raw: string, segment: number, last: CheckpointName | null, now: Date): Promise<boolean> {
  const from = last?.segment ?? 0
  if (segment - from >= (last === null ? FIRST_AT_SEGMENTS : DUE.segments)) return true
  if (last !== null && now.getTime() - last.made.getTime() >= DUE.ageMs) return true
  return (await logBytes(raw, segment, from)) >= DUE.bytes
}

/** Returns the size of the segments after one of them. */
async function logBytes(raw: string, upTo: number, after = 0): Promise<number> {
  const base = await readBase(raw)
  let bytes = after < base.segments ? base.bytes : 0
  for (let number = Math.max(after, base.segments) + 1; number <= upTo; number += 1)
    bytes += (await stat(segmentPath(raw, number))).size
  return bytes
}

async function uploadWarehouse(
  store: ObjectStore,
  { company, temporary, warehouse }: CompanyPaths,
): Promise<Checkpoint['warehouse']> {
  const path = join(temporary, 'checkpoint.duckdb.zst')
  await pipeline(createReadStream(warehouse), createZstdCompress(ZSTD), openNewStream(path))
  const about = await digestFile(path)
  await store.upload(fileKey(company, about.sha256), { path, ...about })
  return { ...about, unpacked_bytes: (await stat(warehouse)).size }
}

/** Uploads the row files that the store lacks: they never change, so those of earlier checkpoints are there already. */
async function uploadRows(
  store: ObjectStore,
  { company, rows: directory }: CompanyPaths,
  { rows, warehouse_id }: WarehouseFacts,
): Promise<void> {
  for (const row of rows) {
    const { bytes, sha256 } = row
    const key = fileKey(company, sha256)
    if ((await store.head(key)) !== null) continue
    const path = rowPath(rowDirectory(directory, warehouse_id), row)
    await store.upload(key, { path, bytes, sha256 })
  }
}

/** Keeps the newest ones of this log, and as many that another version of the program may have made. */
async function removeOld(store: ObjectStore, company: string, now: Date): Promise<void> {
  const all = await listCheckpoints(store, company)
  const [kept, unreadable]: [Checkpoint[], CheckpointName[]] = [[], []]
  const staying = new Set<CheckpointName>()
  for (const name of all.slice(0, MAX_LOOKED_AT)) {
    const checkpoint = await findUsableCheckpoint(store, company, name)
    if (checkpoint === null) {
      if (now.getTime() - name.made.getTime() < UNREADABLE_KEPT_MS) unreadable.push(name)
    } else if (kept.length < KEPT && (await isOfThisLog(store, checkpoint))) {
      kept.push(checkpoint)
      staying.add(name)
    }
  }
  for (const name of unreadable.slice(0, KEPT)) staying.add(name)
  await store.remove(all.filter(name => !staying.has(name)).map(({ key }) => key))
  // They need files of which this version knows nothing.
  if (unreadable.length > 0) return
  const named = new Set(
    kept.flatMap(({ warehouse, rows }) => [warehouse, ...rows]).map(({ sha256 }) => fileKey(company, sha256)),
  )
  const unnamed: string[] = []
  for await (const { key, modified } of store.list(`${checkpointsKey(company)}/files/`))
    if (!named.has(key) && now.getTime() - modified.getTime() >= GRACE_MS) unnamed.push(key)
  await store.remove(unnamed)
}
