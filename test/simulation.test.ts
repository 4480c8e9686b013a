import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/platform/durable.ts'
import { PLANTED } from './simulation/planted.ts'
import { simulate } from './simulation/simulate.ts'

/**
 * Some worlds of many, in which runs are killed, stopped, short of disk and power, and come to all steps but a few.
 * `npm run simulate` runs as many as one likes.
 */
const SEEDS = ['2', '10', '16']

test('in a few simulated worlds, whatever fails in between, the warehouse ends as the truth', async () => {
  const happened = new Set<string>()
  for (const seed of SEEDS) {
    const counts = await simulate(seed).catch(error => {
      throw new Error(`npm run simulate -- --seed ${seed}`, { cause: error })
    })
    for (const what of counts.keys()) happened.add(what)
  }
  const crashPoints = [...happened].filter(what => what.startsWith('crash point: '))
  for (const kind of ['killed', 'interrupted', 'disk', 'power fails'])
    expect(
      crashPoints.some(what => what.startsWith(`crash point: ${kind}`)),
      kind,
    ).toBe(true)
  const steps = DURABLE_STEPS.filter(step => happened.has(`step: ${step}`))
  expect(steps.length).toBeGreaterThan(DURABLE_STEPS.length - 5)
})

test('each bug that can be planted has its place', () => {
  for (const { name, file, from } of PLANTED) {
    const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8')
    expect(text.split(from), name).toHaveLength(2)
  }
})
