import { expect, test } from 'vitest'
import {
  decodeManifest,
  encodeManifest,
  type IcebergSchema,
  STATUS,
} from '#src/extras/object_store/iceberg/manifests.ts'
import {
  currentSchema,
  newTable,
  sortOrderOf,
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
  const ids = (metadata: ReturnType<typeof newTable>) =>
    Object.fromEntries(currentSchema(metadata)?.fields.map(({ name, id }) => [name, id]) ?? [])
  const first = withSchema(newTable('u', 's3://b/t'), table(column('a', 'VARCHAR'), column('b', 'BIGINT')))
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
  const sources = (metadata: ReturnType<typeof newTable>) =>
    sortOrderOf(metadata).fields.map(one => one['source-id'])
  const text = table(['company', 'VARCHAR'], ['titulo', 'VARCHAR'], ['edital_id', 'VARCHAR'])
  const first = withSchema(newTable('u', 's3://b/t'), text)
  expect(sources(first)).toEqual([3])
  expect(withSchema(first, text)['sort-orders']).toEqual(first['sort-orders'])
  const second = withSchema(first, table(['company', 'VARCHAR'], ['edital_id', 'BIGINT']))
  expect([sources(second), second['sort-orders'].map(order => order['order-id'])]).toEqual([[4], [0, 1, 2]])
  expect(
    sources(withSchema(newTable('u', 's3://b/t'), table(['company', 'VARCHAR'], ['uf', 'VARCHAR']))),
  ).toEqual([2])
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
