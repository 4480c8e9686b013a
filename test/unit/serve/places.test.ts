import { expect, test } from 'vitest'
import { Places } from '#src/server/contract/places.ts'
import { Refusal } from '#src/server/contract/source.ts'

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
