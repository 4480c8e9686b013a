import { afterAll, beforeAll, expect, test } from 'vitest'
import { DURABLE_STEPS } from '#src/platform/durable.ts'
import { checkDurableFirst } from '#test/simulation/snapshots.ts'
import { type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain()
})
afterAll(() => chain.close())

// The last first: a run that dies late has published, and the next one finds snapshots.
test.each(DURABLE_STEPS.toReversed())(
  'killed after %s, a run leaves what the next one goes on from',
  async step => {
    const { code, reached, stderr } = await chain.runUntil({ step, when: 'after', signal: 'SIGKILL' })
    // Whatever the one before left, this one came as far as it should.
    expect({ code, reached, stderr }).toEqual({ code: null, reached: true, stderr: '' })
    // The first one came to its end; from then on there is always a whole snapshot.
    await checkDurableFirst(chain.paths, true)
  },
)

test('after a kill at every step, a run that nobody disturbs makes all as if there had been none', async () => {
  await chain.expectConverged()
})
