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
