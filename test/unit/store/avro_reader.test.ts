import { expect, test } from 'vitest'
import { readAvro } from '#src/extras/object_store/iceberg/avro_reader.ts'

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
const text = (value: string) => Buffer.concat([long(Buffer.byteLength(value)), Buffer.from(value)])

function file(blocks: readonly Buffer[], { schema = JSON.stringify(SCHEMA), codec = 'null' } = {}): Buffer {
  const header = [text('avro.schema'), text(schema), text('avro.codec'), text(codec)]
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
