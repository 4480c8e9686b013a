import { readFile, stat } from 'node:fs/promises'
import { readBase, segmentPath } from '#src/core/rawlog/files.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { pluralize } from '#src/lib/count.ts'
import { FatalError, ignoreMissing } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'

/** The raw log that hosts share (LOG_URL), of one company. */
export type SharedSegments = { readonly settings: S3Settings; readonly company: string }

/** The segments of a raw log, for reading only: on the disk, or, after a restore from a checkpoint, the first in the store. */
export type Segments = {
  isInStore(number: number): boolean
  /** Changes if the segment is written again; null if it is missing. */
  whereIs(number: number): Promise<string | null>
  /** Returns the SHA-256 of a segment, as hex; null if it is missing. */
  hashSegment(number: number): Promise<string | null>
  /** Returns the bytes of a segment that is not missing. */
  read(number: number): Promise<Buffer>
  close(): void
}

/** Segments in the store never change. */
const IN_STORE = 'in the store'

/** Opens the segments of a log. @throws FatalError if segments are in a store that is not named. */
export async function openSegments(raw: string, shared: SharedSegments | null): Promise<Segments> {
  const { segments: base } = await readBase(raw)
  if (base > 0 && shared === null)
    throw new FatalError(
      `the first ${pluralize(base, 'segment')} of the raw log are only in an object store, and LOG_URL does not name it`,
    )
  const openStored = async ({ settings, company }: SharedSegments) =>
    await (await import('#src/extras.ts')).getHosts().openStored(settings, company, base)
  const store = base > 0 && shared ? await openStored(shared) : null
  const onDisk = async (number: number) => await identifySegment(segmentPath(raw, number))
  const storeFor = async (number: number) =>
    store !== null && number <= base && (await onDisk(number)) === null ? store : null
  return {
    isInStore: number => number <= base,
    whereIs: async number => ((await storeFor(number)) ? IN_STORE : await onDisk(number)),
    async hashSegment(number) {
      const there = await storeFor(number)
      if (there) return await there.hashSegment(number)
      return (await onDisk(number)) && hashContent(await readFile(segmentPath(raw, number)))
    },
    async read(number) {
      const there = await storeFor(number)
      if (there) return await there.read(number)
      return await readFile(segmentPath(raw, number))
    },
    close: () => store?.close(),
  }
}

/** Changes if the file is written again; null without a file. */
async function identifySegment(path: string): Promise<string | null> {
  const found = await ignoreMissing(stat(path))
  return found && `${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`
}

/** Lines with these documents are events only if the warehouse loaded them. */
type DocumentKind = 'notice' | 'analysis'

/**
 * Parquet files of the tables that have a row for each document that the warehouse loaded: `edital_versions`,
 * `analysis_versions`.
 */
export type VersionFiles = Readonly<Record<DocumentKind, readonly string[]>>

/** Returns the key of a document, in these tables and in the log: kind, notice, and when it was written, in ms. */
export function lineKey(kind: string, id: string, atMs: number): string {
  return `${kind} ${id} ${atMs}`
}

/**
 * Returns which documents of this time the warehouse loaded, by `lineKey`. It sets aside what it cannot load, and analyses of
 * notices that it does not have: readers of the mirror never see those lines.
 */
export async function findLoadedLines(
  db: Database,
  files: VersionFiles,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<ReadonlySet<string>> {
  const loaded = new Set<string>()
  for (const kind of ['notice', 'analysis'] as const) {
    if (files[kind].length === 0) continue
    const rows = await db.rows<{ id: string; at: number }>(
      `SELECT edital_id AS id, epoch_ms(observed_at)::DOUBLE AS at
       FROM read_parquet([${files[kind].map(literal).join(', ')}], hive_partitioning = false)
       WHERE observed_at BETWEEN make_timestamptz($from::BIGINT) AND make_timestamptz($to::BIGINT)`,
      { from: fromMs * 1000, to: toMs * 1000 },
    )
    for (const { id, at } of rows) loaded.add(lineKey(kind, id, at))
  }
  return loaded
}
