import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkListed, checkVerdict, validDocuments } from '#test/support/judged.ts'
import { loadAndCompare, mutatedPair, saidBy } from '#test/support/loaded.ts'
import { mutated, mutation, type Tree, textOf } from '#test/support/mutations.ts'
import { temporaryDirectory } from '#test/support/project.ts'

/** A small sample of what `npm run fuzz` runs by the million; the same in every run. */
const SEED = 20261121

describe.each(['notice', 'analysis'] as const)('a mutated %s', root => {
  it('is quarantined or kept by the contract, and whatever exceeds the contract is kept beside it', () => {
    const bases = validDocuments()[root]
    fc.assert(
      fc.property(mutation({ bytes: true }), each => checkVerdict(mutated(each, bases, 'n0'), root, 'n0')),
      { numRuns: 1500, seed: SEED },
    )
  })
})

it('a mutated notice in a list affects no other', () => {
  const bases = validDocuments().notice
  const good = Buffer.from(textOf(bases[0] as Tree))
  fc.assert(
    fc.property(mutation({ bytes: false }), each => checkListed(mutated(each, bases, 'n0'), good)),
    { numRuns: 1000, seed: SEED },
  )
})

it('mutated notices and analyses become exactly the rows that they justify', async () => {
  const said = saidBy(fc.sample(mutatedPair, { numRuns: 250, seed: SEED }))
  const loaded = await loadAndCompare(said, await temporaryDirectory())
  expect(loaded.documents).toBeGreaterThan(450)
  expect(loaded.quarantined).toBeGreaterThan(50)
  expect(loaded.rows).toBeGreaterThan(300)
})
