import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkDurableFirst } from '#test/simulation/snapshots.ts'
import { CHAINED_STEPS, type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain()
})
afterAll(() => chain.close())

test.each(CHAINED_STEPS)(
  'a run killed after %s leaves a state from which the next one continues',
  async step => {
    const { code, reached, stderr } = await chain.runUntil({ step, when: 'after', signal: 'SIGKILL' })
    // Whatever the previous run left, this one reached its step.
    expect({ code, reached, stderr }).toEqual({ code: null, reached: true, stderr: '' })
    // The first run got to its end, so from then on there is always a complete snapshot.
    await checkDurableFirst(chain.paths, true)
  },
)

test('after a kill at every step, an undisturbed run ends as if there had been none', async () => {
  await chain.expectConverged()
})
