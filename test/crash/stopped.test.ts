import { existsSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/durable.ts'
import { readStored } from '#test/simulation/oracle.ts'
import { type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain()
})
afterAll(() => chain.close())

test.each(DURABLE_STEPS.toReversed())(
  'stopped before %s, a run keeps and publishes what it has',
  async step => {
    const { code, reached, stderr } = await chain.runUntil({ step, when: 'before', signal: 'SIGTERM' })
    expect(reached).toBe(true)
    // Too late to stop anything, it ends as it would have.
    expect([0, 130], stderr).toContain(code)
    expect(stderr).not.toMatch(/Unexpected|at .*\.ts/)
    // Not where it was stopped before it had made a warehouse.
    if (existsSync(chain.paths.warehouse)) await readStored(chain.paths)
  },
)

test('after a stop at every step, a run that nobody disturbs makes all as if there had been none', async () => {
  await chain.expectConverged()
})
