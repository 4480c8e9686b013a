import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  add,
  hashRemoteSchema,
  metaData,
  parseVersion,
  protocol,
} from '#src/extras/object_store/delta/table.ts'
import { isRemoteBehind, writeRemoteState } from '#src/extras/object_store/state.ts'
import type { Bound, RemoteColumn, RemoteType } from '#src/extras/object_store/tables/format.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const table = (...columns: [name: string, type: RemoteType][]) => ({
  name: 't',
  comment: 'T',
  columns: columns.map(([name, type]): RemoteColumn => ({ name, type, comment: name })),
})

/** The statistics of a file with one column. */
function statsOf(type: RemoteType, min: Bound | null, max: Bound | null, nulls: number | null = 0) {
  const statistics = [{ name: 'a', values: 3, nulls, bytes: 10, min, max }]
  const { stats } = add({ path: 'data/x', rows: 3, bytes: 100 }, statistics, table(['a', type]))
  return JSON.parse(stats) as object
}

test.each<[RemoteType, Bound, Bound, unknown, unknown]>([
  ['BIGINT', -5n, 7n, -5, 7],
  ['DOUBLE', -0.5, 1e300, -0.5, 1e300],
  ['DATE', -1n, 20_000n, '1969-12-31', '2024-10-04'],
  ['TIMESTAMPTZ', 1_500n, 1_500n, '1970-01-01T00:00:00.001Z', '1970-01-01T00:00:00.002Z'],
  ['TIMESTAMPTZ', -1_500n, -1_500n, '1969-12-31T23:59:59.998Z', '1969-12-31T23:59:59.999Z'],
  ['TIMESTAMPTZ', -2_000n, 3_000n, '1969-12-31T23:59:59.998Z', '1970-01-01T00:00:00.003Z'],
  ['TIMESTAMP', 1_000n, 1_001n, '1970-01-01T00:00:00.001', '1970-01-01T00:00:00.002'],
  ['VARCHAR', 'a', 'é'.repeat(40), 'a', `${'é'.repeat(31)}ê`],
])('bounds of %s from %s to %s never exclude a value', (type, min, max, least, most) => {
  expect(statsOf(type, min, max)).toEqual({
    numRecords: 3,
    minValues: { a: least },
    maxValues: { a: most },
    nullCount: { a: 0 },
  })
})

test.each<[RemoteType, Bound | null]>([
  ['BIGINT', 2n ** 60n],
  ['DOUBLE', Number.POSITIVE_INFINITY],
  ['BOOLEAN', true],
  ['VARCHAR', null],
])('a bound that JSON cannot express is left out: %s %s', (type, bound) => {
  expect(statsOf(type, bound, bound, null)).toEqual({
    numRecords: 3,
    minValues: {},
    maxValues: {},
    nullCount: {},
  })
})

test('only tables with local times need readers that support them', () => {
  expect(protocol(table(['a', 'TIMESTAMPTZ'])).protocol).toMatchObject({ minReaderVersion: 1 })
  expect(protocol(table(['a', 'TIMESTAMP'])).protocol).toMatchObject({
    minReaderVersion: 3,
    readerFeatures: ['timestampNtz'],
  })
})

test('the id of a table derives from its place, and its columns are known by a hash', () => {
  const one = table(['a', 'BIGINT'])
  const at = new Date(0)
  expect(metaData(one, 's3://b/t', at)).toEqual(metaData(one, 's3://b/t', at))
  expect(metaData(one, 's3://b/t', at)).not.toEqual(metaData(one, 's3://b/u', at))
  expect(hashRemoteSchema(one)).not.toBe(hashRemoteSchema(table(['a', 'DOUBLE'])))
  expect(hashRemoteSchema(one)).not.toBe(hashRemoteSchema({ ...one, comment: 'U' }))
})

test('the version is in the name of a commit or checkpoint', () => {
  expect(parseVersion('x/_delta_log/00000000000000000012.json')).toBe(12)
  expect(parseVersion('x/_delta_log/00000000000000000010.checkpoint.parquet')).toBe(10)
  expect(parseVersion('x/_delta_log/_last_checkpoint')).toBeNull()
  expect(parseVersion('x/_delta_log/00000000000000000010.json.tmp')).toBeNull()
})

const AT = '2026-11-22T12:00:00.000Z'

test.each([
  ['just published', '2026-11-22T12:30:00Z', false],
  ['an interval later', '2026-11-22T13:00:00Z', true],
  // Waiting until the time of the last publish would keep the store two days old.
  ['the clock was set back', '2026-11-20T12:00:00Z', true],
])('a newer snapshot is due or not: %s', async (_, now, isBehind) => {
  const directory = await temporaryDirectory()
  const paths = { lake: join(directory, 'lake'), remote: join(directory, 'remote.json') }
  await mkdir(paths.lake)
  await symlink(join('snapshots', 'newer'), join(paths.lake, 'latest'))
  const published = { tried_at: AT, snapshot: 'older', published_at: AT, due_at: AT }
  await writeRemoteState(paths.remote, {
    ...published,
    reading: null,
    pending: null,
    error: null,
    behind_since: null,
  })
  expect(await isRemoteBehind({ intervalMs: 3_600_000 }, paths, new Date(now))).toBe(isBehind)
})
