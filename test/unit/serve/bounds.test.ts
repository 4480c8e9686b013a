import { expect, test } from 'vitest'
import { Places } from '#src/lib/concurrency.ts'
import { Json, Refusal } from '#src/server/contract/source.ts'
import { PageBudget } from '#src/server/page_cache.ts'

const MOST = { ofKey: 2, ofCompany: 3, inAll: 4 }

function startPlaces() {
  const places = new Places(MOST, (taken, by) => new Refusal(429, `${by} ${taken}`, 1))
  const take = (company: string, key: string) => places.take({ company, key })
  return { places, take }
}

test('neither a key nor a company takes all places', () => {
  const { places, take } = startPlaces()
  take('acme', 'a')
  const leave = take('acme', 'a')
  expect(() => take('acme', 'a')).toThrow('ofKey 2')
  take('acme', 'b')
  expect(() => take('acme', 'c')).toThrow('ofCompany 3')
  take('other', 'd')
  expect(() => take('other', 'd')).toThrow('inAll 4')
  leave()
  leave()
  expect(places.size).toBe(3)
  take('acme', 'c')
  expect(() => take('other', 'd')).toThrow('inAll 4')
})

function page(bytes: number): Json {
  return new Json(new Uint8Array(bytes), 'tag')
}

test('small pages are limited as well: each counts with its overhead', () => {
  const cache = new PageBudget().open()
  for (let n = 0; n < 40_000; n += 1) cache.add(`page ${n}`, page(60))
  expect(cache.size).toBeLessThan(33_000)
  expect(cache.get('page 39999')).toBeDefined()
  expect(cache.get('page 0')).toBeUndefined()
})

test('the least recently used page is removed first', () => {
  const cache = new PageBudget().open()
  const large = page(8 * 1024 * 1024)
  for (const key of ['a', 'b']) cache.add(key, large)
  cache.get('a')
  cache.add('c', large)
  expect(['a', 'b', 'c'].filter(key => cache.get(key))).toEqual(['a', 'c'])
})

test('a company with many requests removes no page of another', () => {
  const budget = new PageBudget()
  const [modest, greedy] = [budget.open(), budget.open()]
  modest.add('mine', page(100_000))
  for (let n = 0; n < 1000; n += 1) greedy.add(String(n), page(100_000))
  expect(modest.get('mine')).toBeDefined()
  expect(greedy.size * 150_000).toBeLessThan(17 * 1024 * 1024)
})

test('the share of a removed company is free for the others', () => {
  const budget = new PageBudget()
  const [first, second] = [budget.open(), budget.open()]
  expect(first.maxBytes).toBe(16 * 1024 * 1024)
  second.close()
  expect(first.maxBytes).toBe(32 * 1024 * 1024)
})
