import { expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/durable.ts'
import { simulate } from './simulation/simulate.ts'

/**
 * Some worlds of many: in these, runs are struck in each way, and everything but a few steps is come to.
 * `npm run simulate` runs as many as one likes.
 */
const SEEDS = ['2', '4', '9']

test('in a few simulated worlds, whatever fails in between, the warehouse ends as the truth', async () => {
  const happened = new Set<string>()
  for (const seed of SEEDS) {
    const counts = await simulate(seed).catch(error => {
      throw new Error(`npm run simulate -- --seed ${seed}`, { cause: error })
    })
    for (const what of counts.keys()) happened.add(what)
  }
  expect([...happened].filter(what => what.startsWith('fate:')).length).toBeGreaterThan(0)
  const steps = DURABLE_STEPS.filter(step => happened.has(`step: ${step}`))
  expect(steps.length).toBeGreaterThan(DURABLE_STEPS.length - 5)
})
