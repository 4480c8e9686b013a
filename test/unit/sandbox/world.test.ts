import { expect, test } from 'vitest'
import { type Entry, World } from '#src/sandbox/world.ts'
import { START } from '#test/support/sandbox.ts'

function entry(id: string, createdAt: string, status = 'screening'): Entry {
  const edital = { id, pncp_id: `p-${id}`, status, created_at: createdAt, updated_at: createdAt }
  return { edital, analysis: { id, status, analysis_level: 'none' } }
}

const all = { statuses: null, limit: 200, offset: 0 }

async function listed(world: World): Promise<string[]> {
  const { editais } = await world.list(all)
  return (editais as { id: string }[]).map(({ id }) => id)
}

test('a world is ordered by instant, in whatever form it is written', async () => {
  const world = new World([
    entry('a', '2026-01-01T10:00:00Z'),
    entry('b', '2026-01-01T08:30:00-03:00'),
    entry('c', '2026-01-01T10:00:00.500Z'),
  ])
  expect(await listed(world)).toEqual(['b', 'c', 'a'])
})

test('additions, changes, removals and restorations are visible at once', async () => {
  const world = new World([entry('a', '2026-01-01T00:00:00Z')])
  world.put(entry('b', '2026-01-02T00:00:00Z', 'ready'))
  expect(await listed(world)).toEqual(['b', 'a'])
  world.remove('b')
  expect(await listed(world)).toEqual(['a'])
  expect([await world.get('b'), await world.analysis('b'), world.removedIds()]).toEqual([null, null, ['b']])
  world.restore('b')
  expect(await listed(world)).toEqual(['b', 'a'])
  expect(world.removedIds()).toEqual([])
  expect((await world.list({ ...all, statuses: ['ready'] })).total).toBe(1)
  world.update('a', { edital: { status: 'ready' } })
  expect((await world.list({ ...all, statuses: ['ready'] })).total).toBe(2)
})

test('an update changes updated_at only on request', async () => {
  const world = new World([entry('a', '2026-01-01T00:00:00Z')])
  world.update('a', { analysis: { analysis_level: 'deep' } })
  expect(await world.get('a')).toMatchObject({ updated_at: '2026-01-01T00:00:00Z' })
  expect(await world.analysis('a')).toMatchObject({ analysis_level: 'deep' })
  world.update('a', { updatedAt: START })
  expect(await world.get('a')).toMatchObject({ updated_at: START.toISOString() })
})

test('a shared field changes in both documents, and documents returned earlier do not change', async () => {
  const world = new World([entry('a', '2026-01-01T00:00:00Z')])
  const before = await world.get('a')
  world.update('a', { edital: { status: 'ready', participation_confirmed: true, uf: 'SP' } })
  expect(await world.analysis('a')).toEqual({ id: 'a', status: 'ready', analysis_level: 'none', uf: 'SP' })
  expect(before).toMatchObject({ status: 'screening' })
  world.update('a', { edital: { uf: undefined }, analysis: null })
  expect(await world.get('a')).not.toHaveProperty('uf')
  expect(await world.analysis('a')).toBeNull()
})

test('an unknown id is an error', () => {
  const world = new World()
  expect(() => world.update('x', {})).toThrow(RangeError)
  expect(() => world.remove('x')).toThrow(RangeError)
  expect(() => world.restore('x')).toThrow(RangeError)
})

test('20,000 notices are sorted once, not for every page', async () => {
  let timesRead = 0
  const entries = Array.from({ length: 20_000 }, (_, index) => {
    const { edital } = entry(`n${index}`, START.toISOString())
    const get = () => {
      timesRead += 1
      return START.toISOString()
    }
    return { edital: Object.defineProperty({ ...edital }, 'created_at', { get }), analysis: null }
  })
  const world = new World(entries)
  const ids = new Set<string>()
  for (let offset = 0; offset < 20_000; offset += 200) {
    const { editais } = await world.list({ ...all, offset })
    for (const { id } of editais as { id: string }[]) ids.add(id)
  }
  expect(ids.size).toBe(20_000)
  expect(timesRead).toBe(20_000)
})
