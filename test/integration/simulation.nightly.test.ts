import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/lib/durable.ts'
import { simulateFeed } from '#test/simulation/feed/simulate.ts'
import { simulate } from '#test/simulation/simulate.ts'

/**
 * A few of many worlds: their runs are killed, stopped, short of disk or power, and reach almost all steps.
 * `npm run simulate` runs as many as needed.
 */
const SEEDS = ['7', '24', '41']

test('in simulated worlds with any failures in between, the warehouse ends up correct', async () => {
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

test('in simulated worlds of a consumer of the feed, it ends up in step with the mirror', async () => {
  for (const seed of ['14', '23'])
    await simulateFeed(seed).catch(error => {
      throw new Error(`npm run simulate -- --feed --seed ${seed}`, { cause: error })
    })
})

test('the command simulates several worlds, and counts them', async () => {
  const main = ['test/simulation/main.ts', '--feed', '--seeds', '2', '--workers', '2']
  const { stdout } = await promisify(execFile)(process.execPath, main)
  expect(stdout).toContain('2 seeds from 1, 0 failed')
})
