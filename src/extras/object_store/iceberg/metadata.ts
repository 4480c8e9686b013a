import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { Expiry, RemoteColumn, RemoteTable } from '#src/extras/object_store/tables/format.ts'
import { COUNT, type JsonKind } from '#src/lib/objects/objects.ts'
import type { IcebergField, IcebergSchema } from './manifests.ts'

/** `metadata.json` of an Iceberg v2 table, as pure functions. Names are those of its specification. */

export type TableMetadata = {
  readonly 'format-version': 2
  readonly 'table-uuid': string
  readonly location: string
  readonly 'last-sequence-number': number
  readonly 'last-updated-ms': number
  readonly 'last-column-id': number
  readonly schemas: readonly IcebergSchema[]
  readonly 'current-schema-id': number
  readonly 'partition-specs': readonly object[]
  readonly 'default-spec-id': 0
  readonly 'last-partition-id': number
  readonly 'sort-orders': readonly SortOrder[]
  readonly 'default-sort-order-id': number
  readonly properties: Readonly<Record<string, string>>
  /** -1 if there is none. */
  readonly 'current-snapshot-id': number
  readonly snapshots: readonly Snapshot[]
  readonly 'snapshot-log': readonly { readonly 'snapshot-id': number; readonly 'timestamp-ms': number }[]
  readonly 'metadata-log': readonly { readonly 'metadata-file': string; readonly 'timestamp-ms': number }[]
  readonly refs: Readonly<Record<string, { readonly 'snapshot-id': number; readonly type: 'branch' | 'tag' }>>
}

export type SortOrder = {
  readonly 'order-id': number
  readonly fields: readonly {
    readonly 'source-id': number
    readonly transform: 'identity'
    readonly direction: 'asc' | 'desc'
    readonly 'null-order': 'nulls-first' | 'nulls-last'
  }[]
}

export type Snapshot = {
  readonly 'snapshot-id': number
  readonly 'parent-snapshot-id'?: number
  readonly 'sequence-number': number
  readonly 'timestamp-ms': number
  readonly 'manifest-list': string
  readonly 'schema-id': number
  readonly summary: Readonly<Record<string, string>>
}

const ID = z.number().int()
/** Until the year 2100: later ones would reach the end of time, because each is later than the one before it. */
export const MS = z.number().int().nonnegative().max(4_102_444_800_000)

/** The fields that a later version is made of. The others stay as they are. */
export const METADATA: JsonKind<TableMetadata> = {
  name: 'metadata of an Iceberg table',
  // A table with a snapshot a minute for two weeks.
  mostBytes: 32 * 1024 * 1024,
  shape: z.looseObject({
    'format-version': z.literal(2),
    'table-uuid': z.string(),
    location: z.string(),
    'last-sequence-number': COUNT,
    'last-updated-ms': MS,
    'last-column-id': COUNT,
    schemas: z.array(
      z.looseObject({
        'schema-id': ID,
        fields: z.array(z.looseObject({ id: ID, name: z.string(), type: z.unknown() })),
      }),
    ),
    'current-schema-id': ID,
    'sort-orders': z.array(z.looseObject({ 'order-id': ID, fields: z.array(z.looseObject({})) })),
    'default-sort-order-id': ID,
    properties: z.record(z.string(), z.string()),
    'current-snapshot-id': ID,
    snapshots: z.array(
      z.looseObject({
        'snapshot-id': ID,
        'sequence-number': COUNT,
        'timestamp-ms': MS,
        'manifest-list': z.string(),
        summary: z.record(z.string(), z.string()),
      }),
    ),
    'snapshot-log': z.array(z.object({ 'snapshot-id': ID, 'timestamp-ms': MS })),
    'metadata-log': z.array(z.object({ 'metadata-file': z.string(), 'timestamp-ms': MS })),
    refs: z.record(z.string(), z.looseObject({ 'snapshot-id': ID })),
  }) as unknown as z.ZodType<TableMetadata>,
}

/** In the summary of our snapshots: the name of the lake's snapshot. Other programs' snapshots lack it. */
export const SNAPSHOT_PROPERTY = 'editais-sync.snapshot'
export const MAIN = 'main'

const TYPES: Readonly<Record<RemoteColumn['type'], string>> = {
  VARCHAR: 'string',
  BIGINT: 'long',
  INTEGER: 'int',
  DOUBLE: 'double',
  BOOLEAN: 'boolean',
  TIMESTAMPTZ: 'timestamptz',
  TIMESTAMP: 'timestamp',
  DATE: 'date',
}

/** Tags of the lake's snapshots begin with it. */
const SNAPSHOT_TAG = 's-'

/** Returns the tag of a lake's snapshot. */
export function snapshotTag(snapshot: string): string {
  return `${SNAPSHOT_TAG}${snapshot}`
}

/** Returns a table without rows or columns. */
export function createTableMetadata(uuid: string, location: string): TableMetadata {
  return {
    'format-version': 2,
    'table-uuid': uuid,
    location,
    'last-sequence-number': 0,
    'last-updated-ms': 0,
    'last-column-id': 0,
    schemas: [],
    'current-schema-id': -1,
    'partition-specs': [{ 'spec-id': 0, fields: [] }],
    'default-spec-id': 0,
    'last-partition-id': 999,
    'sort-orders': [UNSORTED],
    'default-sort-order-id': 0,
    properties: {},
    'current-snapshot-id': -1,
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
    refs: {},
  }
}

/** Returns the columns that readers see; a column keeps its id as long as it keeps its name and type. */
export function withSchema(metadata: TableMetadata, table: RemoteTable): TableMetadata {
  const known = new Map(
    findCurrentSchema(metadata)?.fields.map(field => [`${field.name} ${field.type}`, field.id]),
  )
  let lastId = metadata['last-column-id']
  const newId = () => {
    lastId += 1
    return lastId
  }
  const fields = table.columns.map(({ name, type, comment }): IcebergField => {
    const id = known.get(`${name} ${TYPES[type]}`) ?? newId()
    return { id, name, required: false, type: TYPES[type], doc: comment }
  })
  const properties = {
    ...metadata.properties,
    // Commits by other programs, and their clean-ups, would remove files that a kept snapshot names.
    'gc.enabled': 'false',
    comment: table.comment,
    // The files have no field ids of their own.
    'schema.name-mapping.default': JSON.stringify(
      fields.map(({ id, name }) => ({ 'field-id': id, names: [name] })),
    ),
  }
  const same = metadata.schemas.find(schema => JSON.stringify(schema.fields) === JSON.stringify(fields))
  const id = same?.['schema-id'] ?? Math.max(-1, ...metadata.schemas.map(schema => schema['schema-id'])) + 1
  return {
    ...metadata,
    'last-column-id': lastId,
    schemas: same ? metadata.schemas : [...metadata.schemas, { type: 'struct', 'schema-id': id, fields }],
    'current-schema-id': id,
    ...sortOrders(metadata, fields),
    properties,
  }
}

/**
 * Returns the order that the table prefers: by notice, or by its first column. Our files do not claim to have it, because rows
 * of a month stay in the order in which they came; it is for programs that sort what they read or copy.
 */
function sortOrders(
  { 'sort-orders': known }: TableMetadata,
  columns: readonly IcebergField[],
): Pick<TableMetadata, 'sort-orders' | 'default-sort-order-id'> {
  const first =
    columns.find(({ name }) => name === 'edital_id') ?? columns.find(({ name }) => name !== 'company')
  const ascending = { transform: 'identity', direction: 'asc', 'null-order': 'nulls-first' } as const
  const fields = first ? [{ 'source-id': first.id, ...ascending }] : []
  const same = known.find(order => isDeepStrictEqual(order.fields, fields))
  const id = same?.['order-id'] ?? Math.max(0, ...known.map(order => order['order-id'])) + 1
  return {
    'sort-orders': same ? known : [...known, { 'order-id': id, fields }],
    'default-sort-order-id': id,
  }
}

/** Returns the order that the table prefers. */
export function findSortOrder(metadata: TableMetadata): SortOrder {
  const { 'sort-orders': orders, 'default-sort-order-id': id } = metadata
  return orders.find(order => order['order-id'] === id) ?? UNSORTED
}

const UNSORTED: SortOrder = { 'order-id': 0, fields: [] }

export function findCurrentSchema(metadata: TableMetadata): IcebergSchema | null {
  return metadata.schemas.find(schema => schema['schema-id'] === metadata['current-schema-id']) ?? null
}

export function findCurrentSnapshot(metadata: TableMetadata): Snapshot | null {
  return metadata.snapshots.find(one => one['snapshot-id'] === metadata['current-snapshot-id']) ?? null
}

/** Makes a snapshot the present one. */
export function makePresent(metadata: TableMetadata, snapshot: Snapshot): TableMetadata {
  const { 'snapshot-id': id, 'timestamp-ms': ms } = snapshot
  return {
    ...metadata,
    'last-sequence-number': snapshot['sequence-number'],
    'last-updated-ms': ms,
    'current-snapshot-id': id,
    snapshots: [...metadata.snapshots, snapshot],
    'snapshot-log': [...metadata['snapshot-log'], { 'snapshot-id': id, 'timestamp-ms': ms }],
    refs: { ...metadata.refs, [MAIN]: { 'snapshot-id': id, type: 'branch' } },
  }
}

/** Tags the present snapshot of the table as that of a snapshot of the lake. */
export function withTag(metadata: TableMetadata, snapshot: string, at: Date): TableMetadata {
  const tag = { 'snapshot-id': metadata['current-snapshot-id'], type: 'tag' as const }
  const refs = { ...metadata.refs, [snapshotTag(snapshot)]: tag }
  return { ...metadata, 'last-updated-ms': at.getTime(), refs }
}

/** Drops the tags of these snapshots of the lake, and what no other tag names. Returns the same object if nothing changes. */
export function dropTags(metadata: TableMetadata, expired: ReadonlySet<string>, now: Date): TableMetadata {
  const gone = new Set([...expired].map(snapshotTag))
  const refs = Object.fromEntries(Object.entries(metadata.refs).filter(([name]) => !gone.has(name)))
  const named = new Set([
    metadata['current-snapshot-id'],
    ...Object.values(refs).map(ref => ref['snapshot-id']),
  ])
  const isKept = (one: { readonly 'snapshot-id': number }) => named.has(one['snapshot-id'])
  const snapshots = metadata.snapshots.filter(isKept)
  if (
    Object.keys(refs).length === Object.keys(metadata.refs).length &&
    snapshots.length === metadata.snapshots.length
  )
    return metadata
  // Readers of a log that has gaps may take the wrong snapshot for a time: entries before a gap are removed.
  const log = metadata['snapshot-log']
  const lastGone = log.findLastIndex(one => !isKept(one))
  return {
    ...metadata,
    'last-updated-ms': Math.max(now.getTime(), metadata['last-updated-ms']),
    refs,
    snapshots,
    'snapshot-log': log.slice(lastGone + 1),
    'metadata-log': [],
  }
}

/** Snapshots of the lake that a table has, by its tags; and those that have expired. */
export function findExpired(
  { refs }: Pick<TableMetadata, 'refs'>,
  older: Expiry,
): { readonly snapshots: readonly string[]; readonly expired: ReadonlySet<string> } {
  const tags = Object.keys(refs).filter(ref => ref.startsWith(SNAPSHOT_TAG))
  const names = tags.map(name => name.slice(SNAPSHOT_TAG.length)).sort()
  // If the clock was set back, the name of the latest snapshot is not the last one.
  const snapshots = [
    ...names.filter(name => name !== older.latest),
    ...names.filter(name => name === older.latest),
  ]
  return { snapshots, expired: listExpired(snapshots, older) }
}

/**
 * Returns the snapshots that have expired. What counts is when a newer one appeared: until then readers could begin to read it.
 * Names begin with their time.
 */
function listExpired(names: readonly string[], { keepMs, now }: Expiry): ReadonlySet<string> {
  const expired = names.filter((name, index) => {
    const successor = names[index + 1]
    // The successor has an earlier time if the clock was set back.
    return successor !== undefined && now.getTime() - Math.max(parseTime(successor), parseTime(name)) > keepMs
  })
  return new Set(expired)
}

/** Reads the time from a snapshot's name, such as `20261123T070105Z-000020`. */
function parseTime(snapshot: string): number {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/.exec(snapshot) ?? []
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
}
