import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import avro, { type Schema } from 'avsc'

/** Manifests and manifest lists of Iceberg v2, as Avro files. Field ids are those of its specification. */

export const STATUS = { existing: 0, added: 1, deleted: 2 } as const

export type DataFile = {
  readonly file_path: string
  readonly record_count: number
  readonly file_size_in_bytes: number
  readonly column_sizes: Pairs<number>
  readonly value_counts: Pairs<number>
  readonly null_value_counts: Pairs<number>
  readonly lower_bounds: Pairs<Buffer>
  readonly upper_bounds: Pairs<Buffer>
}
type Pairs<T> = readonly { readonly key: number; readonly value: T }[]

export type ManifestEntry = {
  readonly status: number
  readonly snapshot_id: number
  readonly sequence_number: number
  readonly file_sequence_number: number
  readonly data_file: DataFile
}

export type ListedManifest = {
  readonly manifest_path: string
  readonly manifest_length: number
  readonly sequence_number: number
  readonly min_sequence_number: number
  readonly added_snapshot_id: number
  readonly added_files_count: number
  readonly existing_files_count: number
  readonly deleted_files_count: number
  readonly added_rows_count: number
  readonly existing_rows_count: number
  readonly deleted_rows_count: number
}

const field = (name: string, type: unknown, id: number) => ({ name, type, 'field-id': id })
const optional = (name: string, type: unknown, id: number) => ({
  name,
  type: ['null', type],
  default: null,
  'field-id': id,
})

/** In Avro, a map whose keys are not text is an array of pairs. */
const pairs = (value: string, keyId: number, valueId: number) => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${keyId}_v${valueId}`,
    fields: [field('key', 'int', keyId), field('value', value, valueId)],
  },
})

const ENTRY = {
  type: 'record',
  name: 'manifest_entry',
  fields: [
    field('status', 'int', 0),
    optional('snapshot_id', 'long', 1),
    optional('sequence_number', 'long', 3),
    optional('file_sequence_number', 'long', 4),
    field(
      'data_file',
      {
        type: 'record',
        name: 'r2',
        fields: [
          field('content', 'int', 134),
          field('file_path', 'string', 100),
          field('file_format', 'string', 101),
          field('partition', { type: 'record', name: 'r102', fields: [] }, 102),
          field('record_count', 'long', 103),
          field('file_size_in_bytes', 'long', 104),
          optional('column_sizes', pairs('long', 117, 118), 108),
          optional('value_counts', pairs('long', 119, 120), 109),
          optional('null_value_counts', pairs('long', 121, 122), 110),
          optional('lower_bounds', pairs('bytes', 126, 127), 125),
          optional('upper_bounds', pairs('bytes', 129, 130), 128),
        ],
      },
      2,
    ),
  ],
}

const LISTED = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    field('manifest_path', 'string', 500),
    field('manifest_length', 'long', 501),
    field('partition_spec_id', 'int', 502),
    field('content', 'int', 517),
    field('sequence_number', 'long', 515),
    field('min_sequence_number', 'long', 516),
    field('added_snapshot_id', 'long', 503),
    field('added_files_count', 'int', 504),
    field('existing_files_count', 'int', 505),
    field('deleted_files_count', 'int', 506),
    field('added_rows_count', 'long', 512),
    field('existing_rows_count', 'long', 513),
    field('deleted_rows_count', 'long', 514),
  ],
}

/** Encodes a manifest. @param schema the table's, as in its metadata. */
export async function encodeManifest(
  entries: readonly ManifestEntry[],
  schema: IcebergSchema,
): Promise<Buffer> {
  const records = entries.map(entry => ({
    ...entry,
    data_file: { content: 0, file_format: 'PARQUET', partition: {}, ...entry.data_file },
  }))
  return await encode(ENTRY, records, {
    schema: JSON.stringify(schema),
    'schema-id': String(schema['schema-id']),
    'partition-spec': '[]',
    'partition-spec-id': '0',
    'format-version': '2',
    content: 'data',
  })
}

export async function encodeManifestList(
  manifests: readonly ListedManifest[],
  snapshot: { readonly id: number; readonly parent: number | null; readonly sequence: number },
): Promise<Buffer> {
  const records = manifests.map(manifest => ({ partition_spec_id: 0, content: 0, ...manifest }))
  return await encode(LISTED, records, {
    'snapshot-id': String(snapshot.id),
    'parent-snapshot-id': String(snapshot.parent),
    'sequence-number': String(snapshot.sequence),
    'format-version': '2',
  })
}

/** Reads a manifest that this module wrote. @throws Error if it did not. */
export function decodeManifest(bytes: Buffer): ManifestEntry[] {
  return readAvro(bytes, ENTRY) as ManifestEntry[]
}

/** Reads a manifest list that this module wrote. @throws Error if it did not. */
export function decodeManifestList(bytes: Buffer): ListedManifest[] {
  return readAvro(bytes, LISTED) as ListedManifest[]
}

async function encode(
  schema: object,
  records: readonly object[],
  about: Record<string, string>,
): Promise<Buffer> {
  const metadata = Object.fromEntries(Object.entries(about).map(([name, text]) => [name, Buffer.from(text)]))
  // The same content gives the same bytes: a repeated upload must find its own object.
  const syncMarker = Buffer.alloc(16, 0x65)
  // Typed for schemas without attributes; the header keeps them.
  const encoder = new avro.streams.BlockEncoder(
    schema as Schema,
    { metadata, syncMarker, writeHeader: true } as object,
  )
  const out = buffer(encoder.pipe(new PassThrough()))
  for (const record of records) if (!encoder.write(record)) await once(encoder, 'drain')
  encoder.end()
  return await out
}

export type IcebergSchema = {
  readonly type: 'struct'
  readonly 'schema-id': number
  readonly fields: readonly IcebergField[]
}

export type IcebergField = {
  readonly id: number
  readonly name: string
  readonly required: false
  readonly type: string
  readonly doc: string
}

/**
 * Reads Avro files of one known schema from bytes that anybody may have written: a claimed length or number of items takes
 * no more time or memory than the file has bytes. Neither compressed files nor files of another schema are read.
 */

type AvroType =
  | string
  | readonly AvroType[]
  | { readonly type: string; readonly items?: AvroType; readonly fields?: readonly AvroField[] }
type AvroField = { readonly name: string; readonly type: AvroType }

const MAGIC = Buffer.from('Obj\x01')
const SYNC_BYTES = 16
/** Maximum groups of a number: ten of seven bits. */
const MAX_GROUPS = 10

/**
 * Returns the records of a file.
 * @throws Error unless it is a whole file of this schema.
 */
export function readAvro(bytes: Buffer, schema: object): unknown[] {
  const reader = new AvroReader(bytes)
  if (!reader.take(MAGIC.length).equals(MAGIC)) throw new Error('no Avro file')
  const header = new Map<string, string>()
  reader.readItems(() => header.set(reader.text(), reader.text()))
  if (header.get('avro.schema') !== JSON.stringify(schema)) throw new Error('another schema')
  if ((header.get('avro.codec') ?? 'null') !== 'null') throw new Error('compressed')
  const sync = reader.take(SYNC_BYTES)
  const records: unknown[] = []
  while (!reader.isAtEnd) {
    const count = reader.number()
    const block = new AvroReader(reader.take(reader.number()))
    for (let done = 0; done < count; done += 1) {
      if (block.isAtEnd) throw new Error('fewer records than it claims')
      records.push(block.read(schema as AvroType))
    }
    if (!block.isAtEnd || !reader.take(SYNC_BYTES).equals(sync)) throw new Error('damaged')
  }
  return records
}

class AvroReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  take(count: number): Buffer {
    if (count < 0 || count > this.#bytes.length - this.#at) throw new Error('cut short')
    this.#at += count
    return this.#bytes.subarray(this.#at - count, this.#at)
  }

  /** Returns a whole number that a double holds exactly. */
  number(): number {
    let value = 0n
    for (let group = 0; group < MAX_GROUPS; group += 1) {
      const byte = this.take(1)[0] as number
      value |= BigInt(byte & 0x7f) << BigInt(7 * group)
      if (byte < 0x80) return exact((value >> 1n) ^ -(value & 1n))
    }
    throw new Error('a number that is too long')
  }

  text(): string {
    return this.take(this.number()).toString('utf8')
  }

  /**
   * Reads the items of a list.
   * @param readItem takes at least one byte, so that a claimed number of items ends with the file.
   */
  readItems(readItem: () => void): void {
    for (let count = this.number(); count !== 0; count = this.number()) {
      // A negative one is followed by the size of its items.
      if (count < 0) this.number()
      for (let left = Math.abs(count); left > 0; left -= 1) readItem()
    }
  }

  read(type: AvroType): unknown {
    if (isUnion(type)) return this.#readUnion(type)
    if (typeof type !== 'string') return this.#readNested(type)
    if (type === 'null') return null
    if (type === 'int' || type === 'long') return this.number()
    if (type === 'string') return this.text()
    if (type === 'bytes') return Buffer.from(this.take(this.number()))
    throw new Error(`the type ${type}`)
  }

  #readUnion(types: readonly AvroType[]): unknown {
    const type = types[this.number()]
    if (type === undefined) throw new Error('damaged')
    return this.read(type)
  }

  #readNested({
    type,
    items = 'null',
    fields = [],
  }: Exclude<AvroType, string | readonly AvroType[]>): unknown {
    if (type === 'record') return Object.fromEntries(fields.map(field => [field.name, this.read(field.type)]))
    const read: unknown[] = []
    this.readItems(() => read.push(this.read(items)))
    return read
  }
}

function isUnion(type: AvroType): type is readonly AvroType[] {
  return Array.isArray(type)
}

function exact(value: bigint): number {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new Error('a number that is too large')
  return number
}
