import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkDurableFirst } from '#test/simulation/snapshots.ts'
import { CHAINED_STEPS, type CrashChain, startCrashChain } from '#test/support/crash_chain.ts'
import { bareNotice } from '#test/support/notices.ts'

/** From so many notices on, the snapshot is written while the warehouse becomes durable. */
const MANY = 2001
/** What happens then, and what waits for it. The first one ends the first run, so from then on there is a snapshot. */
const STEPS = CHAINED_STEPS.filter(step =>
  /^(temporary\.remove|rows\.(sync|directory|remove)|warehouse|expired|unfinished|parquet|catalog|snapshot|manifest|latest|state)/.test(
    step,
  ),
)

let chain: CrashChain
beforeAll(async () => {
  chain = await startCrashChain(Array.from({ length: MANY }, (_, index) => bareNotice(1001 + index)))
})
afterAll(() => chain.close())

test.each(STEPS)(
  'a run of many notices killed after %s leaves a state from which the next one continues',
  async step => {
    const { code, reached, stderr } = await chain.runUntil({ step, when: 'after', signal: 'SIGKILL' })
    expect({ code, reached, stderr }).toEqual({ code: null, reached: true, stderr: '' })
    await checkDurableFirst(chain.paths, true)
  },
)

test('after a kill at each of these steps, an undisturbed run ends as if there had been none', async () => {
  await chain.expectConverged()
})
