import { z } from 'zod'
import type { RemoteTable, RemoteType } from '#src/extras/object_store/tables/columns.ts'
import { DATA_PATH, type RemoteFile } from '#src/extras/object_store/tables/format.ts'
import { type Bound, type ColumnStatistics, textBound } from '#src/extras/object_store/tables/statistics.ts'
import { hashOf, uuidOf } from '#src/lib/hash.ts'
import { COUNT, type JsonKind, jsonIn } from '#src/lib/objects/json_object.ts'

/** Actions of a Delta table's log, as pure functions, and what this program reads of a log. Names are those of its protocol. */

type Add = {
  readonly path: string
  readonly partitionValues: Readonly<Record<string, never>>
  readonly size: number
  readonly modificationTime: number
  readonly dataChange: true
  /** JSON. */
  readonly stats: string
}
type Remove = {
  readonly path: string
  readonly deletionTimestamp: number
  readonly dataChange: true
}
/** The note that identifies a commit as ours. A commit without it comes from another program. */
export type Note = {
  /** The lake's snapshot. */
  readonly snapshot: string
  /** A hash of the columns and their comments. */
  readonly schema: string
  /** All files that the table has with this commit: a publish need not read the whole log. */
  readonly files: readonly string[]
}
type CommitInfo = { readonly inCommitTimestamp: number; readonly userMetadata?: string }
export type Action = {
  readonly commitInfo?: CommitInfo
  readonly protocol?: object
  readonly metaData?: object
  readonly add?: Add
  readonly remove?: Remove
}

const TYPES: Readonly<Record<RemoteType, string>> = {
  VARCHAR: 'string',
  BIGINT: 'long',
  INTEGER: 'integer',
  DOUBLE: 'double',
  BOOLEAN: 'boolean',
  TIMESTAMPTZ: 'timestamp',
  TIMESTAMP: 'timestamp_ntz',
  DATE: 'date',
}
/** How many characters of a text a bound has, as with Delta's own writers. */
const TEXT_CHARACTERS = 32
const DAY_MS = 86_400_000

/** Returns the first action of a commit. Its time is the table's, not the one that the object store gives the file. */
export function commitInfo(note: Note, at: Date, isFirst: boolean): Action {
  const info = {
    timestamp: at.getTime(),
    inCommitTimestamp: at.getTime(),
    operation: isFirst ? 'CREATE TABLE AS SELECT' : 'WRITE',
    operationParameters: isFirst ? {} : { mode: 'Overwrite' },
    isBlindAppend: false,
    engineInfo: 'editais-sync',
    userMetadata: JSON.stringify(note),
  }
  return { commitInfo: info }
}

/** Returns the lowest protocol versions that readers and writers need. */
export function protocol({ columns }: RemoteTable): Action {
  const needsLocalTimes = columns.some(({ type }) => type === 'TIMESTAMP')
  return {
    protocol: needsLocalTimes
      ? {
          minReaderVersion: 3,
          minWriterVersion: 7,
          readerFeatures: ['timestampNtz'],
          writerFeatures: ['timestampNtz', 'inCommitTimestamp'],
        }
      : { minReaderVersion: 1, minWriterVersion: 7, writerFeatures: ['inCommitTimestamp'] },
  }
}

/**
 * Makes the action that describes a table.
 * @param location of the table, from which its id derives: two writers give a new table the same id.
 */
export function metaData(table: RemoteTable, location: string, at: Date): Action {
  const fields = table.columns.map(({ name, type, comment }) => ({
    name,
    type: TYPES[type],
    nullable: true,
    metadata: { comment },
  }))
  return {
    metaData: {
      id: uuidOf(`delta ${location}`),
      name: table.name,
      description: table.comment,
      format: { provider: 'parquet', options: {} },
      schemaString: JSON.stringify({ type: 'struct', fields }),
      partitionColumns: [],
      configuration: {
        'delta.enableInCommitTimestamps': 'true',
        // Clean-ups by other programs would remove files that a kept snapshot names.
        'delta.deletedFileRetentionDuration': 'interval 36500 days',
        'delta.logRetentionDuration': 'interval 36500 days',
      },
      createdTime: at.getTime(),
    },
  }
}

export function hashRemoteSchema({ columns, comment }: RemoteTable): string {
  return hashOf(JSON.stringify([comment, columns])).slice(0, 32)
}

export function add(file: RemoteFile, statistics: readonly ColumnStatistics[], table: RemoteTable): Add {
  return {
    path: file.path,
    partitionValues: {},
    size: file.bytes,
    // Paths have a hash of the content, so the time of a copy means nothing.
    modificationTime: 0,
    dataChange: true,
    stats: statsOf(file.rows, statistics, table),
  }
}

function statsOf(rows: number, statistics: readonly ColumnStatistics[], { columns }: RemoteTable): string {
  const known = statistics.map((one, index) => ({ ...one, type: columns[index]?.type as RemoteType }))
  const bounds = (side: 'min' | 'max') =>
    known.flatMap(({ name, type, ...column }) => {
      const bound = column[side]
      const value = bound === null ? null : boundOf(bound, type, side)
      return value === null ? [] : [[name, value]]
    })
  const nulls = known.flatMap(({ name, nulls }) => (nulls === null ? [] : [[name, nulls]]))
  return JSON.stringify({
    numRecords: rows,
    minValues: Object.fromEntries(bounds('min')),
    maxValues: Object.fromEntries(bounds('max')),
    nullCount: Object.fromEntries(nulls),
  })
}

/** Returns null if the protocol or JSON cannot express it. */
function boundOf(bound: Bound, type: RemoteType, side: 'min' | 'max'): string | number | null {
  switch (type) {
    case 'BOOLEAN':
      return null
    case 'VARCHAR':
      return textBound(String(bound), side, TEXT_CHARACTERS)
    case 'INTEGER':
    case 'BIGINT':
      return Number.isSafeInteger(Number(bound)) ? Number(bound) : null
    case 'DOUBLE':
      return Number.isFinite(bound) ? Number(bound) : null
    case 'DATE':
      return new Date(Number(bound) * DAY_MS).toISOString().slice(0, 10)
    case 'TIMESTAMPTZ':
      return milliseconds(BigInt(bound), side)
    case 'TIMESTAMP':
      return milliseconds(BigInt(bound), side).slice(0, -1)
  }
}

/** Converts microseconds, rounded outwards, so that the bounds still contain every value. */
function milliseconds(micros: bigint, side: 'min' | 'max'): string {
  const below = Number(micros / 1000n)
  const floor = micros % 1000n < 0n ? below - 1 : below
  const isExact = micros % 1000n === 0n
  return new Date(side === 'min' || isExact ? floor : floor + 1).toISOString()
}

/** A commit names all files of the table, and its texts are bounded. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024

const PATH = z.string().regex(DATA_PATH)
/** Statistics, which are JSON within JSON. */
const STATS = z.string().transform((text, context) => {
  try {
    return z.object({ numRecords: COUNT }).parse(JSON.parse(text)).numRecords
  } catch {
    context.addIssue({ code: 'custom', message: 'no statistics' })
    return z.NEVER
  }
})

/** A file that a commit or a checkpoint adds; its statistics are the number of its rows. */
export const ADDED = z.object({ path: PATH, size: COUNT, stats: STATS })
export type Added = z.output<typeof ADDED>

const NAME = 'commit of this table'
const NOTE: JsonKind<Note> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ snapshot: z.string(), schema: z.string(), files: z.array(PATH) }),
}
const CHANGE: JsonKind<{ add?: Added | undefined; remove?: { path: string } | undefined }> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ add: ADDED.optional(), remove: z.object({ path: PATH }).optional() }),
}
/** Any program's. */
const INFO: JsonKind<{
  commitInfo?: { inCommitTimestamp?: number | undefined; userMetadata?: string | undefined } | undefined
}> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({
    commitInfo: z
      .object({ inCommitTimestamp: COUNT.optional(), userMetadata: z.string().optional() })
      .optional(),
  }),
}

/** Reads which files a commit adds and removes. @throws ForeignObject if a line is not one of ours. */
export function changesIn(bytes: Buffer, address: string) {
  return linesIn(bytes).map(line => jsonIn(line, CHANGE, address))
}

/**
 * Returns what identifies a commit, and its time; null if another program made it.
 * @throws ForeignObject if it is no commit, or claims to be ours and is not.
 */
export function noteIn(bytes: Buffer, address: string): { readonly note: Note; readonly at: number } | null {
  const infos = linesIn(bytes).map(line => jsonIn(line, INFO, address).commitInfo)
  const { inCommitTimestamp: at, userMetadata } = infos.find(info => info !== undefined) ?? {}
  if (at === undefined || !userMetadata?.startsWith('{"snapshot":')) return null
  return { note: jsonIn(Buffer.from(userMetadata), NOTE, address), at }
}

function linesIn(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const feed = bytes.indexOf('\n', from)
    const end = feed === -1 ? bytes.length : feed
    if (end > from) lines.push(bytes.subarray(from, end))
    from = end + 1
  }
  return lines
}
