import { expect, test } from 'vitest'
import {
  decodeManifest,
  encodeManifest,
  type IcebergSchema,
  readAvro,
  STATUS,
} from '#src/extras/object_store/iceberg/manifests.ts'
import {
  createTableMetadata,
  findCurrentSchema,
  findExpired,
  findSortOrder,
  snapshotTag,
  withSchema,
} from '#src/extras/object_store/iceberg/metadata.ts'
import { boundBytes } from '#src/extras/object_store/iceberg/snapshot.ts'

const text = (value: string, side: 'lower' | 'upper') =>
  boundBytes(value, 'VARCHAR', side)?.toString() ?? null

test('bounds have the binary form of the specification', () => {
  expect(boundBytes(true, 'BOOLEAN', 'lower')).toEqual(Buffer.from([1]))
  expect(boundBytes(-2n, 'INTEGER', 'lower')).toEqual(Buffer.from([0xfe, 0xff, 0xff, 0xff]))
  expect(boundBytes(1n, 'BIGINT', 'lower')).toEqual(Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]))
  expect(boundBytes(1.5, 'DOUBLE', 'lower')).toEqual(Buffer.from([0, 0, 0, 0, 0, 0, 0xf8, 0x3f]))
  expect(boundBytes(20_000, 'DATE', 'upper')).toEqual(Buffer.from([0x20, 0x4e, 0, 0]))
  expect(boundBytes(-1n, 'TIMESTAMPTZ', 'upper')).toEqual(Buffer.alloc(8, 0xff))
})

test('the bound of a long text is its beginning, and never excludes the text', () => {
  expect(text('PREGÃO', 'upper')).toBe('PREGÃO')
  expect(text('abcdefghijklmnopqrs', 'lower')).toBe('abcdefghijklmnop')
  expect(text('abcdefghijklmnopqrs', 'upper')).toBe('abcdefghijklmnoq')
  // Characters beyond 16 bits are not cut in two, and surrogates are skipped.
  expect(text(`${'😀'.repeat(15)}\uD7FFzz`, 'upper')).toBe(`${'😀'.repeat(15)}\uE000`)
  expect(text(`a${'\u{10FFFF}'.repeat(20)}`, 'upper')).toBe('b')
  expect(text('\u{10FFFF}'.repeat(20), 'upper')).toBeNull()
})

test('a column keeps its id while it keeps its name and type, and no id is used twice', () => {
  const column = (name: string, type: 'VARCHAR' | 'BIGINT' | 'DOUBLE') => ({ name, type, comment: name })
  const table = (...columns: ReturnType<typeof column>[]) => ({ name: 't', comment: 'T', columns })
  const ids = (metadata: ReturnType<typeof createTableMetadata>) =>
    Object.fromEntries(findCurrentSchema(metadata)?.fields.map(({ name, id }) => [name, id]) ?? [])
  const first = withSchema(
    createTableMetadata('u', 's3://b/t'),
    table(column('a', 'VARCHAR'), column('b', 'BIGINT')),
  )
  expect(ids(first)).toEqual({ a: 1, b: 2 })
  const second = withSchema(
    first,
    table(column('c', 'DOUBLE'), column('a', 'VARCHAR'), column('b', 'DOUBLE')),
  )
  expect(ids(second)).toEqual({ c: 3, a: 1, b: 4 })
  expect(second.schemas).toHaveLength(2)
  expect(
    withSchema(second, table(column('c', 'DOUBLE'), column('a', 'VARCHAR'), column('b', 'DOUBLE'))),
  ).toEqual(second)
  const third = withSchema(second, table(column('b', 'BIGINT')))
  expect(ids(third)).toEqual({ b: 5 })
})

test('a table prefers the order of its notices, or of its first column, and a new one only with a new column', () => {
  const table = (...columns: (readonly [string, 'VARCHAR' | 'BIGINT'])[]) => ({
    name: 't',
    comment: 'T',
    columns: columns.map(([name, type]) => ({ name, type, comment: name })),
  })
  const sources = (metadata: ReturnType<typeof createTableMetadata>) =>
    findSortOrder(metadata).fields.map(one => one['source-id'])
  const text = table(['company', 'VARCHAR'], ['titulo', 'VARCHAR'], ['edital_id', 'VARCHAR'])
  const first = withSchema(createTableMetadata('u', 's3://b/t'), text)
  expect(sources(first)).toEqual([3])
  expect(withSchema(first, text)['sort-orders']).toEqual(first['sort-orders'])
  const second = withSchema(first, table(['company', 'VARCHAR'], ['edital_id', 'BIGINT']))
  expect([sources(second), second['sort-orders'].map(order => order['order-id'])]).toEqual([[4], [0, 1, 2]])
  expect(
    sources(
      withSchema(createTableMetadata('u', 's3://b/t'), table(['company', 'VARCHAR'], ['uf', 'VARCHAR'])),
    ),
  ).toEqual([2])
})

test('the snapshot that latest.json names never expires, even if the clock was set back before it', () => {
  const [before, latest] = ['20261213T120000Z-000005', '20261212T220000Z-000005']
  const tag = { 'snapshot-id': 1, type: 'tag' } as const
  const refs = { [snapshotTag(before)]: tag, [snapshotTag(latest)]: tag }
  const now = new Date('2026-12-14')
  const { snapshots, expired } = findExpired({ refs }, { keepMs: 0, now, latest })
  expect(snapshots).toEqual([before, latest])
  expect([...expired]).toEqual([before])
  expect(findExpired({ refs }, { keepMs: 86_400_000, now, latest }).expired.size).toBe(0)
})

test('a manifest reads back as it was written, and the same entries give the same bytes', async () => {
  const schema: IcebergSchema = {
    type: 'struct',
    'schema-id': 0,
    fields: [{ id: 1, name: 'a', required: false, type: 'string', doc: 'A' }],
  }
  const entry = {
    status: STATUS.added,
    snapshot_id: 2 ** 52,
    sequence_number: 3,
    file_sequence_number: 3,
    data_file: {
      file_path: 's3://b/t/data/1.parquet',
      record_count: 7,
      file_size_in_bytes: 2 ** 40,
      column_sizes: [{ key: 1, value: 12 }],
      value_counts: [{ key: 1, value: 7 }],
      null_value_counts: [],
      lower_bounds: [{ key: 1, value: Buffer.from('a') }],
      upper_bounds: [{ key: 1, value: Buffer.from('é') }],
    },
  }
  const entries = Array.from({ length: 500 }, () => entry)
  const bytes = await encodeManifest(entries, schema)
  expect(await encodeManifest(entries, schema)).toEqual(bytes)
  const [read, ...others] = await decodeManifest(bytes)
  expect(read).toMatchObject(entry)
  expect(others).toHaveLength(499)
  expect(bytes.toString('latin1')).toContain('"field-id":134')
})

const SCHEMA = {
  type: 'record',
  name: 'r',
  fields: [
    { name: 'n', type: 'long' },
    { name: 'list', type: ['null', { type: 'array', items: 'int' }] },
  ],
}
const SYNC = Buffer.alloc(16, 7)

/** A number as Avro writes it. */
function long(value: number | bigint): Buffer {
  const bytes: number[] = []
  for (let rest = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n)); ; rest >>= 7n) {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
    if (rest <= 0x7fn) return Buffer.from(bytes)
  }
}
const written = (value: string) => Buffer.concat([long(Buffer.byteLength(value)), Buffer.from(value)])

function file(blocks: readonly Buffer[], { schema = JSON.stringify(SCHEMA), codec = 'null' } = {}): Buffer {
  const header = [written('avro.schema'), written(schema), written('avro.codec'), written(codec)]
  return Buffer.concat([Buffer.from('Obj\x01'), long(2), ...header, long(0), SYNC, ...blocks])
}
const block = (count: number | bigint, ...data: Buffer[]) => {
  const content = Buffer.concat(data)
  return Buffer.concat([long(count), long(content.length), content, SYNC])
}

test('records of several blocks are read', () => {
  const first = block(2, long(-5), long(0), long(2 ** 40), long(1), long(2), long(8), long(-9), long(0))
  // A negative count is followed by the size of its items.
  const second = block(1, long(0), long(1), long(-1), long(1), long(3), long(0))
  expect(readAvro(file([first, second]), SCHEMA)).toEqual([
    { n: -5, list: null },
    { n: 2 ** 40, list: [8, -9] },
    { n: 0, list: [3] },
  ])
})

test.each<[what: string, bytes: Buffer, why: string]>([
  ['nothing', Buffer.alloc(0), 'cut short'],
  ['another file', Buffer.from('PAR1PAR1'), 'no Avro file'],
  ['another schema', file([], { schema: '{"type":"array","items":"null"}' }), 'another schema'],
  ['a compressed file', file([], { codec: 'deflate' }), 'compressed'],
  ['a claim of many records', file([block(2n ** 52n, long(1), long(0))]), 'fewer records'],
  ['a claim of many items', file([block(1, long(1), long(1), long(2n ** 52n), long(1))]), 'cut short'],
  ['a number that is too large', file([block(1, long(2n ** 60n), long(0))]), 'too large'],
  ['a number without end', file([block(1, Buffer.alloc(30, 0xff))]), 'too long'],
  [
    'a text that is longer than the file',
    Buffer.concat([Buffer.from('Obj\x01'), long(1), long(2n ** 50n)]),
    'cut short',
  ],
  ['a text of less than nothing', Buffer.concat([Buffer.from('Obj\x01'), long(1), long(-3)]), 'cut short'],
  ['an unknown kind', file([block(1, long(1), long(7))]), 'damaged'],
  ['more than its records', file([block(1, long(1), long(0), long(4))]), 'damaged'],
  [
    'another mark',
    file([Buffer.concat([block(1, long(1), long(0)).subarray(0, -16), Buffer.alloc(16)])]),
    'damaged',
  ],
])('%s is refused at once', (_, bytes, why) => {
  const startedMs = performance.now()
  expect(() => readAvro(bytes, SCHEMA)).toThrow(why)
  expect(performance.now() - startedMs).toBeLessThan(500)
})
